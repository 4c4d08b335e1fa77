"""python -m lab.runner NUMBER PROFILE: run a broker and hosts until SIGTERM."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from lab import image
from lab.host import Host
from lab.machine import EDU, NVME
from lab.places import HOSTS
from lab.profile import PROFILES
from tests.servers import RabbitMQ

#: Options for the devices of profiles: the controller with the virtual functions, and QEMU's
#: teaching device.
DEVICE_OPTIONS = {
    "pci": {
        "device_spec": json.dumps([NVME, EDU]),
        "alias": json.dumps(
            [{"name": "nvme", "device_type": "type-VF", **NVME}, {"name": "edu", **EDU}]
        ),
    }
}


def main(number: int, profile: str) -> None:
    """Run hosts lab1, lab2, ... A host whose agent is ready has a link to its directory."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    HOSTS.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        port = stack.enter_context(RabbitMQ()).port
        disk = image.build()
        names = [f"lab{n}" for n in range(1, number + 1)]
        hosts = [Host(name, PROFILES[profile], disk, port, DEVICE_OPTIONS) for name in names]
        for host in hosts:
            stack.callback(host.close)
            stack.callback((HOSTS / host.hostname).unlink, missing_ok=True)
        _boot_all(hosts)
        signal.pause()


def _boot_all(hosts: Sequence[Host]) -> None:
    """Boot the hosts at once. After SIGTERM none goes on booting, which may take minutes."""
    with ThreadPoolExecutor(len(hosts)) as threads:
        booting = [threads.submit(_boot, host) for host in hosts]
        try:
            for each in booting:
                each.result()
        finally:
            for host, each in zip(hosts, booting, strict=True):
                if not each.done():
                    host.stop()


def _boot(host: Host) -> None:
    host.start().wait_served()
    (HOSTS / host.hostname).symlink_to(host.directory)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
