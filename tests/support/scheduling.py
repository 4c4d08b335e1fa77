"""A scheduler over hosts in memory, and the requests that tests send it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from random import Random

from rtagent.model.aggregate import Aggregate
from rtagent.model.change import Change
from rtagent.model.claim import Claim
from rtagent.model.flavor import Flavor
from rtagent.model.host_report import InstanceInfo
from rtagent.model.node_state import NodeState
from rtagent.model.request_spec import RequestSpec
from rtagent.scheduler.filtering import HostFilters
from rtagent.scheduler.host_state import HostFacts, HostState, host_state_of
from rtagent.scheduler.options import FilterOptions, SchedulerOptions
from rtagent.scheduler.ports import Hosts, PlacementPort
from rtagent.scheduler.select import Scheduler
from rtagent.scheduler.weighing import HostWeighers
from tests.support.hosts import NOON, ManualClock
from tests.support.reporting import Reports


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
        facts = HostFacts(
            base=before.base,
            version=before.version + 1,
            seen=before.seen,
            service=before.service,
            aggregates=before.aggregates,
            instances={**{k: v for k, v in before.instances.items() if k not in infos}, **infos},
        )
        after = host_state_of(replica, facts)
        self.states[node_uuid] = after
        return after


def scheduler(
    hosts: Hosts,
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
