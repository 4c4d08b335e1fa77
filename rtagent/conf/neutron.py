"""[neutron], [neutron_physnet_<name>] and [neutron_tunnel]: the NUMA cells of networks."""

from collections.abc import Sequence
from typing import Any

from oslo_config import cfg, types

from rtagent.conf.options import Group, mutable, option
from rtagent.conf.types import Items
from rtagent.model.base import MAX_INT


def _numa_nodes(whose: str) -> dict[str, Any]:
    return {
        "default": [],
        "type": Items(types.Integer(min=0, max=MAX_INT)),
        "mutable": True,
        "help": f"The ids of the NUMA cells of {whose}: ``0,1``. They must exist on this host.",
    }


class Neutron(Group, frozen=True, kw_only=True):
    """[neutron].

    :ivar physnets:
        The physical networks of this host whose traffic belongs to NUMA cells, for example ``foo,
        bar``.

        The group ``[neutron_physnet_<name>]`` of each of them must list these cells
        (``numa_nodes``). A guest with NUMA cells that is attached to such a network gets at least
        one of them. Other networks have no affinity. For tunnelled networks see
        ``[neutron_tunnel]``.
    """

    physnets: Sequence[str] = mutable(default=[])


class NeutronTunnel(Group, frozen=True, kw_only=True):
    """[neutron_tunnel]."""

    numa_nodes: Sequence[int] = option(
        **_numa_nodes("tunnelled networks (VXLAN, GRE and others); empty: they have no affinity")
    )


def physnet_group(name: str) -> str:
    """Return the name of the option group of a physical network."""
    return f"neutron_physnet_{name}"


def physnet_options() -> list[cfg.Opt]:
    """Return the options of that group."""
    return [cfg.Opt("numa_nodes", **_numa_nodes("the physical network, at least one"))]
