"""The host through libvirt: the only package that imports it."""

from rtagent.virt.libvirt.hypervisor import LibvirtHypervisor

__all__ = ["LibvirtHypervisor"]
