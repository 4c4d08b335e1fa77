"""The NUMA affinity of networks, made from the options of several groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from rtagent.conf.neutron import Neutron, physnet_group
from rtagent.conf.neutron_tunnel import NeutronTunnel
from rtagent.errors import ConfigError
from rtagent.model.base import Value
from rtagent.model.policy import NetworkPolicy

_PREFIX = physnet_group("")


class NetworkOptions(Value, frozen=True, kw_only=True):
    """The options for networks.

    :ivar cells: ``numa_nodes`` of each physical network that is listed.
    """

    neutron: Neutron
    tunnel: NeutronTunnel
    cells: Mapping[str, Sequence[int]]

    def policy(self) -> NetworkPolicy:
        """Return the policy for networks."""
        return NetworkPolicy(
            physnets={name: frozenset(cells) for name, cells in self.cells.items()},
            tunnels=frozenset(self.tunnel.numa_nodes),
        )

    def mistakes(self) -> Iterator[ConfigError]:
        """Yield an error for each listed network without NUMA cells."""
        for name, cells in self.cells.items():
            if not cells:
                rule = f"must list the NUMA cells of {name}, which is in [neutron] physnets"
                group = physnet_group(name)
                yield ConfigError(group=group, option="numa_nodes", value="", rule=rule)

    def unlisted(self, groups: Iterable[str]) -> Iterator[ConfigError]:
        """Yield an error for each group of a physical network that is not listed.

        :param groups: all groups of the files.
        """
        for group in sorted(groups):
            name = group.removeprefix(_PREFIX)
            if name != group and name not in self.cells:
                rule = f"must list {name}, because there is a group [{group}]"
                listed = ",".join(self.neutron.physnets)
                yield ConfigError(group="neutron", option="physnets", value=listed, rule=rule)
