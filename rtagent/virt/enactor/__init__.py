"""The libvirt `Enactor`: runs guests on the hosts of a conductor."""

from rtagent.virt.enactor.enactor import LibvirtEnactor

__all__ = ["LibvirtEnactor"]
