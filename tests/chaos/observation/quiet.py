"""Quiet: waits until everything has recovered, settles every call, and observes."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rtagent.errors import RtAgentError
from rtagent.rpc.calls import UNANSWERED
from tests.chaos.callers.callers import Callers
from tests.chaos.conductors.callers import ConductorCallers
from tests.chaos.history import History
from tests.chaos.observation.observer import CONTEXT, Observer
from tests.chaos.world.conductors import ConductorWorld
from tests.chaos.world.part import DaemonPart
from tests.chaos.world.world import World

#: Seconds within which everything must have recovered after the end of all faults. Nothing waits
#: for ever: a part that takes longer is a violation. This and the next are multiplied by the
#: `patience` of the world.
RECOVERY = 180.0
#: Seconds within which every call must get its answer then.
SETTLEMENT = 120.0
#: Comparisons of the allocations with the claims that an observation waits for.
COMPARISONS = 2
#: How often everything is read while claims still change.
READINGS = 8


class Quiet:
    """Makes quiet periods. :ivar stuck: sentences about what did not recover in time."""

    def __init__(self, world: World, history: History, callers: Callers | ConductorCallers) -> None:
        self._world, self._history, self._callers = world, history, callers
        self._observer = Observer(world, history)
        self._recovery = RECOVERY * world.patience
        self.stuck: list[str] = []

    def run(self, end_faults: Callable[[], None]) -> bool:
        """End all faults, wait, settle and observe. Return whether everything has recovered.

        The callers are paused after this.
        """
        end_faults()
        for each in self._world.parts:
            each.process.ensure_running()
        self.stuck += [f"a call of {name} has not ended" for name in self._callers.pause()]
        self._wait_for_agents()
        self.stuck += [
            f"{step.method} of {step.host or 'a scheduler'} has no definite answer:"
            f" {step.operation_id}"
            for step in self._callers.settle(SETTLEMENT * self._world.patience)
        ]
        self._wait_for_agents()
        if self.stuck:
            return False
        self._history.quiet()
        if not read_steadily(self._observer.read, self._observer.claims, self._views_agree):
            return False
        self._observer.record()
        return True

    def close(self) -> None:
        self._observer.close()

    def _wait_for_agents(self) -> None:
        """Have each agent audit its host, and publish to Placement."""
        deadline = time.monotonic() + self._recovery
        for host in self._world.agents:
            self._until(deadline, f"{host} is not audited", partial(self._audited, host))

    def _audited(self, host: str) -> str:
        """Return "" after a good audit, or what is wrong."""
        api = self._observer.api(host, 40.0)
        summary = api.update_available_resource(CONTEXT)
        if summary["refused"] or not summary["complete"]:
            return str(summary["sentence"])
        api.sync_placement(CONTEXT)
        return ""

    def _views_agree(self) -> bool:
        """Wait until schedulers have the last report of each agent, and allocations are written.

        Return whether that is so in time.
        """
        deadline = time.monotonic() + self._recovery
        for scheduler in self._world.schedulers.values():
            for host in self._world.agents:
                self._until(
                    deadline,
                    f"{scheduler.name} does not know the state of {host}",
                    partial(self._behind, host, scheduler),
                )

        for host in sorted(self._world.restored):
            self._until(deadline, f"{host} has orphans", partial(self._orphaned, host))
        for host in self._world.agents:
            compared: list[str] = []
            self._until(
                deadline,
                f"the allocations of {host} are not written",
                partial(self._unwritten, host, compared),
            )
        if isinstance(self._world, ConductorWorld):
            for host in self._world.agents:
                self._until(
                    deadline, f"{host} has allocations of no claim", partial(self._left, host)
                )
        return not self.stuck

    def _orphaned(self, host: str) -> str:
        """Delete what an older copy left behind, except of guests that still run; return ""."""
        if not delete_orphans(self._world.local_agent(host).daemon.config_file):
            self._world.restored.discard(host)
        return ""

    def _left(self, host: str) -> str:
        """Delete the allocations of a selection whose conductor was killed, so that nobody
        withdrew them: if the agent shows them. Return "" if there are none.
        """
        claims = self._observer.claims()[host]
        known = {claim[of] for claim in claims for of in ("owner_id", "migration_uuid")}
        left = self._observer.consumers(host) - known
        if left:
            delete_orphans(self._world.local_agent(host).daemon.config_file)
        return ", ".join(sorted(left))

    def _unwritten(self, host: str, compared: list[str]) -> str:
        """Return "" when allocations are written, were compared with claims, and still are.

        :param compared: the times of comparisons that were seen.
        """
        node = self._observer.api(host).get_node(CONTEXT)["node"]["uuid"]
        rows = self._observer.rows(host, node, ["allocation_outbox"])["allocation_outbox"]
        if rows:
            return f"{len(rows)} are to be written"
        at = str(self._world.agents[host].read("allocations")["at"])
        if at not in compared:
            compared.append(at)
        # The first one may have begun before the last write.
        return "" if len(compared) > COMPARISONS else "they are not compared yet"

    def _behind(self, host: str, scheduler: DaemonPart) -> str:
        """Return "" if the scheduler has the last state of a host, or what is wrong."""
        known = scheduler.read("hosts", host)["host"]
        node = self._observer.api(host).get_node(CONTEXT)
        if known["revision"] < node["revision"]:
            return f"it has revision {known['revision']} of {node['revision']}"
        own = node["node"]["stats"].get("num_instances", 0)
        if known["num_instances"] != own:  # until claims are forgotten that were assumed
            return f"it has {known['num_instances']} instances, and the host has {own}"
        return ""

    def _until(self, deadline: float, sentence: str, wrong: Callable[[], str]) -> None:
        """Wait until nothing is wrong any more, or it takes too long."""
        while True:
            try:
                found = wrong()
            except (RtAgentError, OSError, *UNANSWERED) as error:
                found = f"{type(error).__name__}: {error}"
            if not found:
                return
            if time.monotonic() > deadline:
                self.stuck.append(f"{sentence} after {self._recovery:g} s: {found}")
                return
            time.sleep(0.5)


def read_steadily(
    read: Callable[[], None], claims: Callable[[], Any], settled: Callable[[], bool]
) -> bool:
    """Read while no claim changes, and return True: an audit may end a lease meanwhile.

    What is read one after the other would contradict itself then, though nothing is wrong. After
    `READINGS` the last one stands.

    :param settled: waits until what follows from the claims has followed; False: it does not.
    """
    for _ in range(READINGS):
        if not settled():
            return False
        before = claims()
        read()
        if claims() == before:
            break
    return True


def delete_orphans(config_file: Path) -> frozenset[str]:
    """Delete the allocations on a host that belong to neither a claim nor a guest.

    A claim that was lost with an older copy of the database is unknown to its agent, which leaves
    the allocations of unknown consumers to the operator.

    :returns: the consumers whose guests are still here. They keep their allocations.
    :raises OSError: a command failed.
    """
    found = {row["consumer"] for row in _run(config_file, "placement", "orphans")}
    guests = {row["domain_uuid"] for row in _run(config_file, "orphan", "list")}
    for consumer in sorted(found - guests):
        _run(config_file, "placement", "orphans", "delete", consumer)
    return frozenset(found & guests)


def _run(config_file: Path, *arguments: str) -> Any:
    command = [sys.executable, "-m", "rtagent.cmd.rtagent", "--config-file", str(config_file)]
    command += [*arguments, "-f", "json"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if ended.returncode:
        raise OSError(f"{' '.join(command)} ended with {ended.returncode}: {ended.stderr}")
    return json.loads(ended.stdout or "[]")
