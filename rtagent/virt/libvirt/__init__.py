"""The libvirt adapter: the only package that imports libvirt."""

from rtagent.virt.libvirt.hypervisor import LibvirtHypervisor

__all__ = ["LibvirtHypervisor"]
