"""Faults: clients build, move and delete servers while services are killed, hosts lose their power,
and the broker and the database are started again. Then the accounts must agree.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from openstack.exceptions import SDKException

from devcloud import accounts, contents
from devcloud.cloud import Cloud
from devcloud.comparison import differences, doubles
from devcloud.hosts import CloudError, wait_until

#: Loops of clients, and the flavors of their servers.
_LOOPS, _FLAVORS = 4, ("nano", "micro", "numa", "pinned")
_PREFIX = "faults-"
#: Seconds between two faults, and within which a step of a client ends.
_PAUSE, _PATIENCE = 30.0, 90.0
#: Seconds within which the accounts agree after the last fault. Nova itself looks again for what
#: it has not finished after up to a minute, and so does rtagent.
_SETTLE = 300.0


class Faults:
    """One run.

    :ivar doubles: each CPU that was seen with two servers, at any moment.
    :ivar faults: the number of each. :ivar steps: the number of each thing that clients did.
    """

    def __init__(self, cloud: Cloud, seed: int) -> None:
        self._cloud, self._random = cloud, random.Random(seed)
        self._seed = seed
        self._ends = threading.Event()
        self._guard = threading.Lock()
        self.doubles: set[str] = set()
        self.faults: dict[str, int] = {}
        self.steps: dict[str, int] = {}

    def run(self, number: int) -> list[str]:
        """Make faults, and return what differs at the end.

        :param number: of faults. :raises CloudError: a part did not start again.
        """
        contents.lift_quotas(self._cloud.connect())
        with ThreadPoolExecutor(_LOOPS + 1) as pool:
            tasks = [pool.submit(self._loop, index) for index in range(_LOOPS)]
            tasks.append(pool.submit(self._watch))
            try:
                for _ in range(number):
                    time.sleep(_PAUSE)
                    fault = self._random.choice(self._faults())
                    name = fault.__name__.strip("_").replace("_", " ")
                    self._cloud.say(name)
                    self.faults[name] = self.faults.get(name, 0) + 1
                    fault()
            finally:
                self._ends.set()
            for task in tasks:
                task.result()
        try:
            self._cloud.up()
        except CloudError:
            # Nova's service hangs when it should end, because the database was down while it
            # started. Its manager would start it again.
            for host in self._cloud.computes:
                host.stop("nova-compute", 9)
                host.start_program()
            self._cloud.up()
        return self._settled()

    def _faults(self) -> list[Callable[[], None]]:
        # Twice as likely, because they are what rtagent is in.
        kills = [self._kill_compute_service] * 2
        host = [self._cut_power, self._evacuate]
        return [*kills, *host, self._restart_broker, self._restart_database]

    def _kill_compute_service(self) -> None:
        host = self._random.choice(self._cloud.computes)
        host.stop("nova-compute", 9)
        time.sleep(self._random.choice((0.0, 5.0)))
        host.start_program()

    def _cut_power(self) -> None:
        host = self._random.choice(self._cloud.computes)
        host.power_off()
        time.sleep(self._random.choice((1.0, 10.0)))
        self._cloud.power_on(host)

    def _evacuate(self) -> None:
        """Cut the power of a host, have its servers built again on the other, and give it back."""
        host = self._random.choice(self._cloud.computes)
        api = self._cloud.connect().compute
        host.power_off()
        self._cloud.force_down(host, down=True)
        evacuating = []
        for server in api.servers(compute_host=host.name):
            with suppress(SDKException):  # it is deleted meanwhile, or another task has it
                api.evacuate_server(server)
                evacuating.append(server.id)

        def is_elsewhere() -> bool:
            left = api.servers(compute_host=host.name)
            return not any(server.id in evacuating for server in left)

        with suppress(CloudError):  # what was building is in error, and stays there
            wait_until(is_elsewhere, "evacuation", _PATIENCE)
        self._count("evacuated", len(evacuating))
        self._cloud.power_on(host)
        self._cloud.force_down(host, down=False)

    def _restart_broker(self) -> None:
        self._cloud.controller.stop("rabbitmq", 9)
        self._cloud.controller.start(_quietly)

    def _restart_database(self) -> None:
        self._cloud.controller.stop("mariadb", 15)
        self._cloud.controller.start(_quietly)

    def _watch(self) -> None:
        """Look all the time for a CPU that two servers have."""
        while not self._ends.wait(2):
            try:
                seen = doubles(accounts.read(self._cloud))
            except (CloudError, OSError, ValueError):
                continue  # something that it reads is down
            for sentence in set(seen) - self.doubles:
                self._cloud.say(sentence)
                self.doubles.add(sentence)

    def _loop(self, index: int) -> None:
        """Build a server, do something with it, delete it; again and again."""
        choose = random.Random(f"{self._seed} {index}")
        api = self._cloud.connect()
        number = 0
        while not self._ends.is_set():
            number += 1
            name = f"{_PREFIX}{index}-{number}"
            try:
                self._live(api, choose, name)
            except (SDKException, CloudError, OSError) as error:
                self._count(f"failed: {type(error).__name__}")
                time.sleep(1)

    def _live(self, api: Any, choose: random.Random, name: str) -> None:
        server = api.compute.create_server(
            name=name,
            flavor_id=choose.choice(_FLAVORS),
            image_id=api.image.find_image(contents.IMAGES[0]).id,
            networks=[{"uuid": api.network.find_network(contents.NETWORK).id}],
        )
        try:
            if self._wait(api, server) == "ACTIVE":
                self._count("built")
                change = choose.choice(sorted(_CHANGES))
                _CHANGES[change](api.compute, server)
                time.sleep(1)
                if self._wait(api, server) == "VERIFY_RESIZE":
                    choose.choice(
                        (api.compute.confirm_server_resize, api.compute.revert_server_resize)
                    )(server)
                    self._wait(api, server)
                self._count(change)
        finally:
            api.compute.delete_server(server, ignore_missing=True)

    def _wait(self, api: Any, server: Any) -> str:
        status = ""

        def is_done() -> bool:
            nonlocal status
            seen = api.compute.get_server(server.id)
            status = seen.status
            return seen.task_state is None and status != "BUILD"

        wait_until(is_done, server.name, _PATIENCE)
        return status

    def _count(self, step: str, number: int = 1) -> None:
        with self._guard:
            self.steps[step] = self.steps.get(step, 0) + number

    def _settled(self) -> list[str]:
        """Delete what is left, and return what differs after `_SETTLE`."""
        api = self._cloud.connect()

        def is_clean() -> bool:
            servers = list(api.compute.servers(name=f"^{_PREFIX}"))
            for server in servers:
                with suppress(SDKException):  # it may be gone meanwhile, or a service not be ready
                    api.compute.delete_server(server, force=True)
            return not servers

        wait_until(is_clean, "deletion of all servers", _SETTLE)
        deadline = time.monotonic() + _SETTLE
        while (left := differences(accounts.read(self._cloud))) and time.monotonic() < deadline:
            time.sleep(5)
        return left


#: What a client does with a server, by name.
_CHANGES: dict[str, Callable[[Any, Any], object]] = {
    "stopped": lambda compute, server: compute.stop_server(server),
    "rebooted": lambda compute, server: compute.reboot_server(server, "HARD"),
    "resized": lambda compute, server: compute.resize_server(server, "micro"),
    "migrated": lambda compute, server: compute.migrate_server(server),
    "migrated live": lambda compute, server: compute.live_migrate_server(
        server, host=None, block_migration="auto"
    ),
    "shelved": lambda compute, server: compute.shelve_server(server),
}


def _quietly(_: str) -> None:
    """Show nothing."""
