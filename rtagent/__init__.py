"""The resource authority of a hypervisor: who holds what on this host."""

from importlib.metadata import version

__version__ = version("rtagent")
