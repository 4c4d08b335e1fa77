"""Hosts lose power during many claims: each answered claim is there after the next boot."""

import random
from pathlib import Path
from typing import Any

from lab.agent import DATABASE, copy_database
from tests.lab.guests import create
from tests.lab.rack import CONTEXT, FLAVOR, Rack, Served
from tests.support.workload.caller import Stream, attempt
from tests.support.workload.checker import Checker, held, shown
from tests.support.workload.ledger import OperationFactory

#: CPUs of the host, and its allocation ratio.
CPUS, RATIO = 4, 16
CONFIG = {
    "DEFAULT": {"cpu_allocation_ratio": RATIO, "disk_allocation_ratio": RATIO},
    "claims": {"claim_expiry_time": 3600},  # no lease must expire during the test
    "libvirt": {"guests_start_timeout": 0},  # a guest that a boot has ended is missed at once
}
RESERVED_MB = 512
#: Answers between two crashes; seconds for which a caller repeats a call, since a boot takes long.
ANSWERS, PATIENCE = 30, 900.0

_WRITER = f"""
import sqlite3
database = sqlite3.connect("{DATABASE}")
print(*database.execute("SELECT epoch, writer_boot_id FROM compute_nodes").fetchone())
"""


class Agent:
    """The agent, as the callers of the workload need it."""

    def __init__(self, host: Served) -> None:
        self._api = host.api

    def invoke(self, method: str, **document: Any) -> Any:
        return getattr(self._api, method)(CONTEXT, timeout=10.0, **document)


def runs(host: Served, stream: Stream) -> str:
    """Start a guest with a claim of the ledger; return the claim's uuid."""
    agent, writer = Agent(host), OperationFactory(random.Random("guest"))
    claim = writer.claim(vcpus=FLAVOR["vcpus"], memory_mb=FLAVOR["memory_mb"])
    for operation in (claim, writer.step("activate_claim", claim.claim_uuid)):
        stream.ledger.begin(operation)
        answer = attempt(agent, operation)
        stream.ledger.done(operation)
    create(host, answer)
    host.audit()
    assert not suspect(host, claim.claim_uuid)
    return claim.claim_uuid


def suspect(host: Served, claim: str) -> bool:
    return host.api.get_claim(CONTEXT, claim)["claim"]["suspect"] is not None


def restart(host: Served) -> None:
    """Restart the agent alone."""
    host.output("systemctl", "restart", "rtagent", timeout=PATIENCE)


def check(host: Served, stream: Stream, directory: Path) -> None:
    """Check that the host's database and agent agree with the ledger."""
    copy = directory / "copy.sqlite"
    copy_database(host, copy)
    checker = Checker(f"sqlite:///{copy}", vcpus=CPUS * RATIO)
    checker.check(stream.ledger)
    checker.close()
    assert shown(host.claims()) == held(stream.ledger)


def writer(host: Served) -> tuple[int, str]:
    """Return the node's writer: its epoch, and the boot id of its host."""
    epoch, boot = host.output("python3", "-c", _WRITER).split()
    return int(epoch), boot


def test_answered_claims_survive_power_failures(rack: Rack, tmp_path: Path):
    host = rack.fresh("no-sriov", CONFIG)
    stream = Stream(Agent(host), "lab", callers=4, patience=PATIENCE)
    stream.ledger.state.reserved_memory_mb = RESERVED_MB
    guest = runs(host, stream)
    boots, writers = [host.boot_id()], [writer(host)]
    with stream:
        for goes_down in (restart, Served.reset, Served.kill):
            stream.wait_answers(ANSWERS)
            goes_down(host)
            host.start().wait_served()
            boots.append(host.boot_id())
            writers.append(writer(host))
            assert suspect(host, guest) == (boots[-1] != boots[0])
        stream.wait_answers(ANSWERS)

    assert stream.retries > 0
    # The boot id distinguishes a boot of the host from a restart of the agent.
    assert [boot for _, boot in writers] == boots
    assert boots[0] == boots[1] and len(set(boots)) == 3
    assert len({epoch for epoch, _ in writers}) == 4
    # A suspect claim is in use: the checker adds up every live claim.
    check(host, stream, tmp_path)
    host.audit()
    assert suspect(host, guest)
    assert shown(host.claims()) == held(stream.ledger)
