"""A scheduler over hosts in memory, and the requests that tests send it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from random import Random
from typing import Any

from msgspec.structs import replace

from rtagent.conf.scheduler import FilterOptions, SchedulerOptions
from rtagent.model.change import Change
from rtagent.model.claim import Claim
from rtagent.model.host_report import InstanceInfo
from rtagent.model.node import Aggregate
from rtagent.model.node_state import NodeState
from rtagent.model.request import Flavor
from rtagent.model.server import ImageRequest, InstanceGroup, RequestSpec
from rtagent.scheduler.filter import Filter, Request
from rtagent.scheduler.filtering import HostFilters
from rtagent.scheduler.host_state import HostState, replica_fields
from rtagent.scheduler.ports import PlacementPort
from rtagent.scheduler.select import Scheduler
from rtagent.scheduler.weigher import Weigher
from rtagent.scheduler.weighing import HostWeighers, WeighedHosts
from tests.support.host_states import SEEN
from tests.support.hosts import NOON, ManualClock, uid
from tests.support.trackers import Reports

#: The instance of every request that does not name another.
INSTANCE = uid(1)


def scheduler_request(
    *,
    extra_specs: Mapping[str, str] | None = None,
    flavor: str = "m1.small",
    image: Mapping[str, str] | None = None,
    image_id: str | None = None,
    hints: Mapping[str, Any] | None = None,
    group: InstanceGroup | None = None,
    instance_uuid: str = INSTANCE,
    placement: bool = False,
    **fields: Any,
) -> Request:
    """Make a request for one instance with 1 vCPU and 512 MB, by default nothing more.

    :param image: properties. :param fields: any other field of `RequestSpec`.
    """
    spec = RequestSpec(
        flavor=Flavor(vcpus=1, memory_mb=512, name=flavor, extra_specs=extra_specs or {}),
        image=ImageRequest(id=image_id, properties=image or {}),
        scheduler_hints=hints,
        instance_group=group,
        **fields,
    )
    return Request(
        spec=spec, instance_uuid=instance_uuid, alive_since=SEEN, now=NOON, placement=placement
    )


def why_not(kind: type[Filter], host: HostState, request: Request, **options: Any) -> str:
    """Return why a filter refuses a host; "": the host passes."""
    check = kind(FilterOptions(**options)).prepare(request)
    rejection = check(host) if check is not None else None
    return "" if rejection is None else rejection.message


def passes(kind: type[Filter], host: HostState, request: Request, **options: Any) -> bool:
    """Whether a host passes a filter."""
    return not why_not(kind, host, request, **options)


class HostsInMemory:
    """Stands for the HostManager: hosts do not report, so that only selections change them.

    :ivar states: by node uuid. :ivar assumed: claims by operation id.
    """

    aggregates: Sequence[Aggregate] = ()

    def __init__(self, hosts: Iterable[HostState]) -> None:
        self.states = {host.uuid: host for host in hosts}
        self.assumed: dict[str, Claim] = {}
        self.until: dict[str, float] = {}

    def get_all_host_states(self) -> Sequence[HostState]:
        return tuple(self.states.values())

    def get_host_state(self, node_uuid: str) -> HostState | None:
        return self.states.get(node_uuid)

    def replica_for(self, host_state: HostState, instance_uuid: str) -> NodeState:
        return host_state.replica

    def assume(self, node_uuid: str, claim: Claim, here: bool) -> HostState:
        self.assumed[claim.uuid] = claim
        return self._change(node_uuid, here=here, puts=(claim,))

    def assumed_until(self, operation_ids: Sequence[str], at: float) -> None:
        self.until.update(dict.fromkeys(operation_ids, at))

    def forget_claim(self, operation_id: str) -> bool:
        claim = self.assumed.pop(operation_id, None)
        if claim is not None:
            self._change(claim.node_uuid, here=False, ends=(claim,))
        return claim is not None

    def forget_owners(self, owners: Collection[str], kind: str) -> None:
        for claim in list(self.assumed.values()):
            if claim.owner_id in owners and claim.kind == kind:
                self.forget_claim(claim.uuid)

    def _change(self, node_uuid: str, *, here: bool, **parts: tuple[Claim, ...]) -> HostState:
        before = self.states[node_uuid]
        replica = before.replica.fold(Change(cause="test", at=NOON, **parts))
        infos = {
            owner: InstanceInfo(uuid=owner, here=here, claims=replica.claims_of(owner))
            for owner in replica.owners
        }
        instances = {**{k: v for k, v in before.instances.items() if k not in infos}, **infos}
        changed = {"instances": instances, "instance_uuids": frozenset(instances)}
        after = replace(before, version=before.version + 1, **replica_fields(replica), **changed)
        self.states[node_uuid] = after
        return after


def scheduler(
    hosts: Any,
    clock: ManualClock | None = None,
    options: SchedulerOptions | None = None,
    filters: Sequence[str] = (),
    placement: PlacementPort | None = None,
    weighers: Sequence[str] = ("RAMWeigher",),
) -> Scheduler:
    """Make a scheduler, by default without Placement.

    :param filters: their names. :param weighers: their names.
    """
    return Scheduler(
        hosts,
        HostFilters.load(FilterOptions(enabled_filters=tuple(filters))),
        HostWeighers.load(FilterOptions(weight_classes=tuple(weighers)), Random(0)),
        options or SchedulerOptions(),
        placement,
        clock or ManualClock(),
        Reports(),
    )


def spec(vcpus: int = 1, memory_mb: int = 1024, root_gb: int = 1, **fields: object) -> RequestSpec:
    """Make a request. :param fields: of the request, or ``extra_specs``."""
    extra_specs = fields.pop("extra_specs", {})
    flavor = Flavor(vcpus=vcpus, memory_mb=memory_mb, root_gb=root_gb, extra_specs=extra_specs)
    return RequestSpec(flavor=flavor, **fields)


#: A uuid of an instance, by its number.
UUID = "00000000-0000-4000-8000-{:012}".format


class ByIoOps(Weigher):
    """A third party's weigher without a multiplier, which cannot weigh every host."""

    def weights(self, hosts: Sequence[HostState], request: Request) -> Sequence[float]:
        return [60 / host.num_io_ops for host in hosts]


def request_for(**fields: object) -> Request:
    """Make a request of a plain instance. :param fields: any field of `RequestSpec`."""
    asked = spec(1, 512, 0, **fields)
    return Request(spec=asked, instance_uuid=UUID(0), alive_since=0.0, now=NOON)


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
    return [each.host.host for each in weighers.in_order(weighers.weigh(hosts, request_for()))]
