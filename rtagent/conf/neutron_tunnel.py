"""[neutron_tunnel]: the NUMA cells of tunnelled networks."""

from __future__ import annotations

from collections.abc import Sequence

from rtagent.conf.neutron import numa_nodes
from rtagent.model.base import Value

GROUP = "neutron_tunnel"

OPTS = [numa_nodes("tunnelled networks (VXLAN, GRE and others); empty: they have no affinity")]


class NeutronTunnel(Value, frozen=True, kw_only=True):
    """:ivar numa_nodes: ids of cells."""

    numa_nodes: Sequence[int]
