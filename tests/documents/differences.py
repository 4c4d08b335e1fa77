"""Files for which rtagent's answer is not the oracle's, or not what libvirt takes, and why."""

from collections.abc import Mapping

#: Documents that are read differently.
READ: Mapping[str, str] = {}

#: Domains in which what `rtagent.virt.libvirt.guest.apply` writes is not what the test requires.
APPLIED: Mapping[str, str] = {
    "qemuxml2argvdata/hostdev-mdev-src-address-invalid.xml": (
        "refused, by libvirt too: a mediated device without a uuid"
    )
}
#: The same, if the claim has no cells.
WITHOUT_CELLS: Mapping[str, str] = {
    **APPLIED,
    "qemuxml2argvdata/memfd-memory-numa.xml": (
        "it keeps its cells of 8 vCPUs, because it has a memory device, and the claim has 4 vCPUs"
    ),
}
