"""Reports of a fleet of hosts, made from one simulated node, and a scheduler that has them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from random import Random

from msgspec.structs import replace

from rtagent.conf.scheduler import DEFAULT_FILTERS, FilterOptions, SchedulerOptions
from rtagent.embedded import SystemClock
from rtagent.model.claim import Claim
from rtagent.model.host_report import HostDescription, HostReport, InstanceInfo
from rtagent.ports import NullReporter
from rtagent.scheduler.filtering import HostFilters
from rtagent.scheduler.host_manager import HostManager
from rtagent.scheduler.report import (
    description_of,
    digest_of,
    instances_digest,
    instances_of,
    report_of,
)
from rtagent.scheduler.report_documents import UpdateInstanceInfo, instances_text
from rtagent.scheduler.select import Scheduler
from rtagent.scheduler.weighing import HostWeighers
from tests.support.host_states import fleet_node, node_named

#: The number of guests of each host.
GUESTS = 20
#: The filters of a cloud with pinned guests and devices.
FIT_FILTERS = (*DEFAULT_FILTERS, "NUMATopologyFilter", "PciPassthroughFilter")
_NAMESPACE = uuid.UUID("6f9619ff-8b86-d011-b42d-00cf4fc964ff")


class Fleet:
    """Equal hosts with 20 guests each. Their names, and the uuids of nodes, guests and claims, are
    different.
    """

    def __init__(self, number: int) -> None:
        self._node = fleet_node(GUESTS)
        self.description: HostDescription = description_of(self._node)
        self.digest = digest_of(self.description)
        self.names = [f"cn{place:04}" for place in range(number)]
        self._report = report_of(self._node, self.digest)
        self._instances = list(instances_of(self._node).values())

    def instances(self, name: str) -> tuple[InstanceInfo, ...]:
        """Return the guests of a host, with their claims."""
        return tuple(self._renamed(each, name) for each in self._instances)

    def report(self, name: str, revision: int = 1, **usage: object) -> HostReport:
        """Return the report of a host. :param usage: what differs from the simulated node's."""
        instances = self.instances(name)
        return replace(
            self._report,
            node=node_named(name),
            epoch=1,
            revision=revision,
            description=self.description,
            usage=replace(self._report.usage, **usage),
            claims=tuple(sorted(claim.uuid for each in instances for claim in each.claims)),
            instances_digest=instances_digest(each.uuid for each in instances),
            instances_revision=1,
        )

    def reported(self, manager: HostManager) -> None:
        """Consume the messages of all hosts."""
        for name in self.names:
            report = self.report(name)
            manager.update_host_state(report)
            instances = self.instances(name)
            message = UpdateInstanceInfo(
                host=report.node.host,
                node_uuid=report.node.uuid,
                epoch=1,
                revision=1,
                instances=instances_text(instances),
            )
            manager.change_instances(message, instances)

    def _renamed(self, info: InstanceInfo, name: str) -> InstanceInfo:
        owner = _uuid(name, info.uuid)
        return replace(
            info,
            uuid=owner,
            claims=tuple(self._renamed_claim(each, owner, name) for each in info.claims),
        )

    def _renamed_claim(self, claim: Claim, owner: str, name: str) -> Claim:
        node = node_named(name)
        return replace(
            claim,
            uuid=_uuid(name, claim.uuid),
            owner_id=owner,
            host=node.host,
            node=node.hypervisor_hostname,
            node_uuid=node.uuid,
        )


def scheduler(manager: HostManager, filters: Sequence[str] = DEFAULT_FILTERS) -> Scheduler:
    """Return a scheduler without Placement."""
    options = FilterOptions(enabled_filters=tuple(filters))
    return Scheduler(
        manager,
        HostFilters.load(options),
        HostWeighers.load(options, Random(0)),
        SchedulerOptions(),
        None,
        SystemClock(),
        NullReporter(),
    )


def view() -> HostManager:
    """Return an empty view of hosts."""
    return HostManager(SystemClock(), NullReporter(), lambda wanted: None)


def _uuid(name: str, of: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, f"{name}/{of}"))
