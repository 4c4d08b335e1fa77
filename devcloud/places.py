"""Paths and addresses of the cloud: everything is in one ignored directory of the checkout."""

from __future__ import annotations

import sys
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HERE = ROOT / "devcloud"
#: The programs of the environment with Nova.
BIN = Path(sys.executable).parent
CLOUD = ROOT / ".openstack"
STATE = CLOUD / "state"
LOGS = STATE / "log"
#: What the controller has after its tables were made; a copy of it is the start of each new cloud.
KEPT = CLOUD / "kept"
#: What the tables and accounts in it depend on.
MAKES_TABLES = (
    ROOT / "constraints-nova.txt",
    ROOT / "constraints-openstack.txt",
    *(HERE / f"{name}.py" for name in ("configs", "contents", "controller")),
)
#: The volumes, as files, which each host sees.
VOLUMES = STATE / "volumes"
#: The disk of a guest.
GUEST = CLOUD / "guest.raw"

CONTROLLER = "controller"
COMPUTES = ("compute1", "compute2")
#: Clouds of several checkouts can be up at the same time: each has two networks, of those for tests
#: of networks (RFC 2544). No machine is in them.
_NUMBER = zlib.crc32(bytes(ROOT)) % 120
ADDRESS = {
    CONTROLLER: f"198.18.{2 * _NUMBER}.1",
    "compute1": f"198.18.{2 * _NUMBER}.11",
    "compute2": f"198.18.{2 * _NUMBER}.12",
}
#: The cable between this machine and the controller. Nothing leads on to the other hosts.
LINK = f"rtagent-{_NUMBER}"
LINK_HERE, LINK_THERE = f"198.18.{2 * _NUMBER + 1}.2", f"198.18.{2 * _NUMBER + 1}.1"
