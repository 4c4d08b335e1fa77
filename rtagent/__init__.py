"""The resource authority of a hypervisor: which claim has which resource of this host."""

from importlib.metadata import version

__version__ = version("rtagent")
