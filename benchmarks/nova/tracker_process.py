"""One host with Nova's tracker or with rtagent's, which makes what is measured.

    python -m benchmarks.nova.tracker_process [--plain] CONFIGURATION HOST

Each line of standard input is a command, ``NAME NUMBER``, and each line of standard output its
result as JSON.
"""

from __future__ import annotations

# It chooses between threads and greenlets, and must be called before anything else of Nova.
from nova import monkey_patch

monkey_patch.patch(backend="threading")

import argparse  # noqa: E402
import json  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402
import uuid  # noqa: E402
from collections.abc import Callable  # noqa: E402
from contextlib import ExitStack  # noqa: E402
from typing import Any  # noqa: E402

from nova import config, context, objects  # noqa: E402
from nova.compute import resource_tracker  # noqa: E402
from nova.virt import fake  # noqa: E402

from rtagent.nova import hook  # noqa: E402
from tests.nova import flavors  # noqa: E402

RESOURCES = {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1}
PROJECT = "3f1b1b0e5c0f4d0c8a3f6b0a5c7d9e11"


class Host:
    """A compute service's tracker with Nova's fake driver, Nova's database and Placement."""

    def __init__(self, name: str) -> None:
        self._context = context.get_admin_context()
        self._name = name
        driver = fake.FakeDriver(None)
        driver.init_host(name)
        self._tracker = resource_tracker.ResourceTracker(name, driver)
        service = objects.Service(self._context, host=name, binary="nova-compute", topic="compute")
        service.create()
        self._tracker.set_service_ref(service)
        self._audit(startup=True)
        self._node = self._tracker.compute_nodes[name]

    def add_guests(self, number: int) -> int:
        """Let instances be on the host."""
        for _ in range(number):
            instance = self._instance()
            instance.host, instance.node = self._name, self._name
            instance.compute_id, instance.vm_state = self._node.id, "active"
            instance.save()
        self._audit()
        return number

    def claims(self, number: int) -> list[float]:
        """Return the seconds of each of some claims, which are aborted after the last one."""
        taken = []
        with ExitStack() as stack:
            for _ in range(number):
                instance = self._instance()
                stack.callback(self._forget, instance)
                allocations = {self._node.uuid: {"resources": RESOURCES}}
                began = time.perf_counter()
                claim = self._tracker.instance_claim(
                    self._context, instance, self._name, allocations
                )
                taken.append(time.perf_counter() - began)
                stack.callback(claim.abort)
        return taken

    def audits(self, number: int) -> list[float]:
        """Return the seconds of CPU time of each of some audits."""
        taken = []
        for _ in range(number):
            began = time.process_time()
            self._audit()
            taken.append(time.process_time() - began)
        return taken

    def busy_claims(self, number: int) -> list[float]:
        """Return the seconds of each of some claims while one audit follows the other."""
        done = threading.Event()

        def audit() -> None:
            while not done.is_set():
                self._audit()

        thread = threading.Thread(target=audit)
        thread.start()
        try:
            return self.claims(number)
        finally:
            done.set()
            thread.join()

    def _audit(self, *, startup: bool = False) -> None:
        self._tracker.update_available_resource(self._context, self._name, startup=startup)

    def _instance(self) -> Any:
        """Make an instance with an allocation, as the scheduler has left it."""
        instance = objects.Instance(
            context=self._context,
            uuid=str(uuid.uuid4()),
            project_id=PROJECT,
            user_id=PROJECT,
            vm_state="building",
            task_state="scheduling",
            flavor=_flavor(),
            old_flavor=None,
            new_flavor=None,
            instance_type_id=1,
            vcpus=RESOURCES["VCPU"],
            memory_mb=RESOURCES["MEMORY_MB"],
            root_gb=RESOURCES["DISK_GB"],
            ephemeral_gb=0,
            image_ref="",
            system_metadata={},
            numa_topology=None,
            pci_requests=objects.InstancePCIRequests(requests=[]),
            resources=None,
        )
        instance.create()
        self._tracker.reportclient.put(
            f"/allocations/{instance.uuid}",
            {
                "allocations": {self._node.uuid: {"resources": RESOURCES}},
                "consumer_generation": None,
                "consumer_type": "INSTANCE",
                "project_id": PROJECT,
                "user_id": PROJECT,
            },
            version="1.38",
        ).raise_for_status()
        return instance

    def _forget(self, instance: Any) -> None:
        self._tracker.reportclient.delete(f"/allocations/{instance.uuid}")
        instance.destroy()


def _flavor() -> Any:
    return flavors.flavor(
        id=1,
        flavorid="1",
        name="bench",
        vcpus=RESOURCES["VCPU"],
        memory_mb=RESOURCES["MEMORY_MB"],
        root_gb=RESOURCES["DISK_GB"],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plain", action="store_true", help="with Nova's own tracker")
    parser.add_argument("configuration")
    parser.add_argument("host")
    options = parser.parse_args()
    if not options.plain:
        hook.install()
    config.parse_args(["nova-compute", "--config-file", options.configuration])
    objects.register_all()
    host = Host(options.host)
    commands: dict[str, Callable[[int], Any]] = {
        "add_guests": host.add_guests,
        "audits": host.audits,
        "busy_claims": host.busy_claims,
        "claims": host.claims,
    }
    for line in sys.stdin:
        name, number = line.split()
        print(json.dumps(commands[name](int(number))), flush=True)


if __name__ == "__main__":
    main()
