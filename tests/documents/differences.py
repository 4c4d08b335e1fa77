"""Files for which rtagent's answer is not the oracle's, or not what libvirt takes, and why."""

from collections.abc import Mapping

#: Domains that are read differently.
READ: Mapping[str, str] = {}

#: Domains in which what `rtagent.virt.libvirt.guest.apply` writes is not what a test requires.
APPLIED: Mapping[str, str] = {}

#: Node devices and hosts that are read differently.
OF_HOSTS: Mapping[str, str] = {}
