"""Features: what some worlds have and others do not, drawn from the seed."""

import random
import shutil

from tests.chaos.world.keys import is_signed
from tests.chaos.world.volume import mountable

#: Every call is signed.
KEYS = "keys"
#: The broker only accepts TLS with client certificates.
TLS = "tls"
#: The last host runs QEMU under a libvirtd of its own; the others are simulated.
QEMU = "qemu"
#: Every host is a lab host. No seed draws this.
LAB = "lab"
#: The fewest hosts of which one may run QEMU: the others have enough to claim.
HOSTS_WITH_QEMU = 3


def features(seed: int, hosts: int) -> frozenset[str]:
    """Return what the world of a seed has."""
    found = {KEYS} if is_signed(seed) else set()
    if random.Random(f"tls {seed}").random() < 0.5:
        found.add(TLS)
    drawn = random.Random(f"qemu {seed}").random() < 0.5
    if drawn and hosts >= HOSTS_WITH_QEMU and has_qemu():
        found.add(QEMU)
    return frozenset(found)


def has_qemu() -> bool:
    """Return whether this machine can run a libvirtd with QEMU of its own."""
    programs = ("libvirtd", "qemu-system-x86_64")
    return all(map(shutil.which, programs)) and mountable()
