"""Names of architectures, hypervisor types and VM modes, as image properties have them."""

from __future__ import annotations

from collections.abc import Mapping

from rtagent.conf.filter_scheduler import ARCHITECTURE_NAMES
from rtagent.model.base import Value


class KnownNames(Value, frozen=True):
    """:ivar names: the valid names. :ivar aliases: older names that images may still have."""

    names: frozenset[str]
    aliases: Mapping[str, str] = {}

    def canonical(self, name: str) -> str | None:
        """Return the valid name, in lower case; None: there is none."""
        lowered = name.lower()
        found = self.aliases.get(lowered, lowered)
        return found if found in self.names else None


ARCHITECTURES = KnownNames(
    frozenset(ARCHITECTURE_NAMES),
    {
        **dict.fromkeys(("i386", "i486", "i586", "x86_32", "x86_32p"), "i686"),
        "amd64": "x86_64",
    },
)
HYPERVISOR_TYPES = KnownNames(
    frozenset(
        {
            *("baremetal", "bhyve", "docker", "fake", "hyperv", "ironic", "kqemu", "kvm"),
            *("lxc", "lxd", "openvz", "parallels", "phyp", "prsm", "qemu", "test"),
            *("uml", "vbox", "vmware", "vz", "xen", "zvm"),
        }
    ),
    {"xapi": "xen"},
)
VM_MODES = KnownNames(
    frozenset({"hvm", "xen", "uml", "exe"}), {"pv": "xen", "hv": "hvm", "baremetal": "hvm"}
)
