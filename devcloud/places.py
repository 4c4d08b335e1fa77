"""Paths and addresses of the cloud: everything is in one ignored directory of the checkout."""

from __future__ import annotations

import sys
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
#: The disk of a guest.
GUEST = CLOUD / "guest.raw"

CONTROLLER = "controller"
COMPUTES = ("compute1", "compute2")
#: Of networks for tests of networks (RFC 2544), which no machine is in.
ADDRESS = {
    CONTROLLER: "198.18.88.1",
    "compute1": "198.18.88.11",
    "compute2": "198.18.88.12",
}
#: The cable between this machine and the controller. Nothing leads on to the other hosts.
LINK, LINK_HERE, LINK_THERE = "rtagent-cloud", "198.18.89.2", "198.18.89.1"
