"""Weigh hosts with one weigher, or with several."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from random import Random

from rtagent.model.flavor import Flavor
from rtagent.model.request_spec import InstanceGroup, RequestSpec
from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.options import FilterOptions
from rtagent.scheduler.request import Request
from rtagent.scheduler.weigher import Weigher
from rtagent.scheduler.weighing import HostWeighers, WeighedHosts

#: A uuid of an instance, by its number.
UUID = "00000000-0000-4000-8000-{:012}".format


class ByIoOps(Weigher):
    """A third party's weigher without a multiplier, which cannot weigh every host."""

    def weights(self, hosts: Sequence[HostState], request: Request) -> Sequence[float]:
        return [60 / host.num_io_ops for host in hosts]


def request_for(**fields: object) -> Request:
    """Make a request of a plain instance. :param fields: any field of `RequestSpec`."""
    spec = {"flavor": Flavor(vcpus=1, memory_mb=512), **fields}
    return Request(
        spec=RequestSpec(**spec),
        instance_uuid=UUID(0),
        alive_since=0.0,
        now=datetime(2026, 6, 1, tzinfo=UTC),
    )


def group(policy: str, *members: str) -> InstanceGroup:
    """Make a server group of these instances."""
    return InstanceGroup(policy=policy, members=members)


def weigh(
    weighers: type[Weigher] | Sequence[type[Weigher]],
    hosts: Sequence[HostState],
    options: FilterOptions | None = None,
    **fields: object,
) -> WeighedHosts:
    """Weigh hosts for a request. :param fields: of `request_for`."""
    classes = [weighers] if isinstance(weighers, type) else weighers
    made = [each(options or FilterOptions()) for each in classes]
    return WeighedHosts(made, hosts, request_for(**fields))


def weights(
    weighers: type[Weigher] | Sequence[type[Weigher]],
    hosts: Sequence[HostState],
    options: FilterOptions | None = None,
    **fields: object,
) -> dict[str, float]:
    """Return the weights, by host, best first."""
    chosen = options or FilterOptions()
    weighed = weigh(weighers, hosts, options, **fields)
    ordered = HostWeighers((), chosen, Random(0)).in_order(weighed)
    return {each.host.host: each.weight for each in ordered}


def raw(
    weigher: type[Weigher],
    hosts: Sequence[HostState],
    options: FilterOptions | None = None,
    **fields: object,
) -> Sequence[float] | None:
    """Return what a weigher gives the hosts, before it is normalised."""
    return weigher(options or FilterOptions()).weights(hosts, request_for(**fields))


def in_order(
    hosts: Sequence[HostState], options: FilterOptions, random: Random | None = None
) -> list[str]:
    """Return the names of the hosts in the order in which to try them, by all weighers."""
    weighers = HostWeighers.load(options, random or Random(0))
    return [each.host.host for each in weighers.get_weighed_hosts(hosts, request_for())]
