"""What a conductor calls besides agents: a scheduler, an enactor, hooks and records.

Every call passes a `Faults`, by which a test kills the conductor or loses answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from rtagent.errors import ClaimMismatch, EnactmentFailed, HypervisorUnavailable
from rtagent.model.guest import GuestDomain, GuestState
from rtagent.model.request import Allocation, Flavor
from rtagent.model.server import RequestSpec, Selection, Selections, Server
from rtagent.placement.candidates import PlacementCandidates
from rtagent.scheduler.errors import NoValidHost
from rtagent.scheduler.ports import ADD, NEW, REPLACE, AllocationRequest
from rtagent.testing.placement import MemoryPlacement
from tests.support.hosts import uid
from tests.support.stores import MemoryServerStore

HOSTS = ("h0", "h1", "h2")
#: Raises an error if an order must not have an effect any more.
Check = Callable[[], object]

if TYPE_CHECKING:
    from tests.support.cloud import Cloud


class Killed(BaseException):
    """The conductor's process ends here."""


@dataclass
class Faults:
    """The points that a conductor passes: before and after each call to a port.

    :ivar kill: the number of the point at which the conductor is killed; None: nowhere.
    :ivar errors: errors to raise, once each, by point. :ivar actions: what happens there, too.
    :ivar lasting: errors to raise each time, by the name of the point.
    :ivar passed: the names of the points that were passed.
    """

    kill: int | None = None
    errors: dict[int, Exception] = field(default_factory=dict)
    actions: dict[int, Callable[[], object]] = field(default_factory=dict)
    lasting: dict[str, BaseException] = field(default_factory=dict)
    passed: list[str] = field(default_factory=list)

    def point(self, name: str) -> None:
        number = len(self.passed)
        self.passed.append(name)
        if number == self.kill:
            raise Killed(name)
        self.actions.pop(number, lambda: None)()
        if number in self.errors:
            raise self.errors.pop(number)
        if name in self.lasting:
            raise self.lasting[name]

    def around(self, name: str, call: Callable[[], Any]) -> Any:
        """Make a call that can be killed, or fail, before and after its effect."""
        self.point(f"{name} before")
        answer = call()
        self.point(f"{name} after")
        return answer


class Scheduler:
    """Selects the first host that is not ignored; the others are alternates.

    :ivar order: of preference. :ivar assumed: operation ids of selections without a claim.
    :ivar forced_down: hosts that an operator has forced down.
    :ivar ended: claims that have ended on hosts, by host, as long as the view has them.
    """

    def __init__(self, cloud: Cloud) -> None:
        self.cloud, self.order, self.assumed = cloud, list(HOSTS), set[str]()
        self.alternates = True
        self.specs: list[RequestSpec] = []
        self.ended: dict[str, str] = {}
        self.forced_down = set[str]()

    def select_destinations(
        self, spec: RequestSpec, instance_uuids: Sequence[str], *, alternates: bool
    ) -> Sequence[Selections]:
        return self.cloud.faults.around("select", lambda: self._select(spec, instance_uuids))

    def _select(self, spec: RequestSpec, instance_uuids: Sequence[str]) -> Sequence[Selections]:
        self.specs.append(spec)
        wanted = spec.force_hosts or self.order
        destination = spec.requested_destination
        if destination is not None and destination.host is not None:
            wanted = [destination.host]
        allowed = [each for each in wanted if each not in spec.ignore_hosts]
        found = [self._selection(each, spec) for each in allowed if each not in self.ended]
        if not found:
            raise NoValidHost(
                hosts=3,
                refused={},
                nearest=None,
                own_claims=list(self.ended.values()),
                sentence="no host is left",
            )
        if self.cloud.placement is not None:
            self.cloud.placement.select(instance_uuids[0], found[0], spec)
        self.assumed.add(found[0].operation_id)
        others = tuple(found[1:]) if self.alternates else ()
        return [
            Selections(instance_uuid=each, selected=found[0], alternates=others)
            for each in instance_uuids
        ]

    def _selection(self, host: str, spec: RequestSpec) -> Selection:
        node = self.cloud.hosts[HOSTS.index(host)].node
        allocations = None
        if self.cloud.placement is not None:
            allocations = {node.uuid: Allocation(resources=resources(spec.flavor))}
        return Selection(
            allocations=allocations,
            allocation_request=allocations and {"allocations": msgspec.to_builtins(allocations)},
            host=host,
            nodename=node.hypervisor_hostname,
            provider_uuid=node.uuid,
            operation_id=uid(),
        )

    def is_forced_down(self, host: str) -> bool:
        return host in self.forced_down

    def forget_claim(self, operation_id: str) -> None:
        self.cloud.faults.around("forget", lambda: self.assumed.discard(operation_id))


def resources(flavor: Flavor) -> dict[str, int]:
    """Return what a flavor without extra specs allocates."""
    return {"VCPU": flavor.vcpus, "MEMORY_MB": flavor.memory_mb, "DISK_GB": flavor.root_gb}


class Placement:
    """Placement, as the scheduler and the conductor write to it.

    :ivar killed: whether it is killed in the first write of each consumer by the conductor.
    """

    def __init__(self, cloud: Cloud) -> None:
        self.cloud, self.api, self.killed = cloud, MemoryPlacement(), False
        self._providers = [agent.node.uuid for agent in cloud.hosts]
        for uuid, host in zip(self._providers, HOSTS, strict=True):
            self.api.create_provider(uuid, host)
            totals = {"VCPU": 1000, "MEMORY_MB": 10**7, "DISK_GB": 10**5}
            inventories = {name: {"total": total, "reserved": 0} for name, total in totals.items()}
            self.api.overwrite(uuid, inventories=inventories)

    def consumer(self, uuid: str) -> Any:
        return self.cloud.faults.around("allocations-read", lambda: self.api.consumer(uuid))

    def write(self, consumers: Any) -> None:
        for uuid, content in consumers.items() if self.killed else ():
            if content["consumer_generation"] is None and content["allocations"]:
                self.api.interrupt_consumer(uuid)
        self.cloud.faults.around("allocations-write", lambda: self.api.post_consumers(consumers))

    def select(self, uuid: str, selection: Selection, spec: RequestSpec) -> None:
        """Write the allocations of a selection, as the scheduler does."""
        request = selection.allocation_request
        assert request is not None
        PlacementCandidates(lambda: self.api).write(
            AllocationRequest(
                consumer_uuid=uuid,
                allocations=request["allocations"],
                mappings={},
                project_id=None,
                user_id=None,
                existing={"build": REPLACE, "unshelve": REPLACE, "evacuation": ADD}.get(
                    spec.purpose, NEW
                ),
                generation=spec.consumer_generation,
            )
        )

    def has(self, consumer: str) -> dict[str, dict[str, int]]:
        """Return the allocations of a consumer, by provider."""
        found = self.api.consumer(consumer)["allocations"]
        return {uuid: dict(part["resources"]) for uuid, part in found.items()}

    def consumers(self) -> set[str]:
        """Return every consumer that has allocations."""
        return {
            uuid for each in self._providers for uuid in self.api.allocations(each)["allocations"]
        }


class Enactor:
    """Runs guests as domains of the fake hypervisors.

    :ivar refuses: by host: orders that it refuses, like "start".
    :ivar claims: by host and server: the uuid of the claim that its domain enacts.
    :ivar lost_leases: whether a guest may migrate although its claim has ended.
    """

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.refuses: dict[str, str] = {}
        self.claims: dict[tuple[str, str], str] = {}
        self.lost_leases = False

    def state(self, host: str, server_uuid: str) -> GuestState:
        domain = self._hypervisor(host).domains.get(server_uuid)
        if domain is None:
            return "absent"
        return "running" if domain.active else "stopped"

    def define(self, host: str, domain: GuestDomain, replaced: Any, check: Check) -> None:
        claims = (domain.claim.uuid, *replaced)
        self._order("define", host, domain.uuid, claims, check, lambda: self._define(host, domain))

    def _define(self, host: str, domain: GuestDomain) -> None:
        assert domain.guest.startswith("<vcpu")
        running = self.state(host, domain.uuid) == "running"
        flavor = domain.claim.flavor
        put = self._hypervisor(host).start_domain if running else self._hypervisor(host).define
        put(domain.uuid, flavor.vcpus, flavor.memory_mb)
        self.claims[host, domain.uuid] = domain.claim.uuid

    def start(self, host: str, domain: GuestDomain, check: Check) -> None:
        claims = (domain.claim.uuid,)
        self._order("start", host, domain.uuid, claims, check, lambda: self._start(host, domain))

    def _start(self, host: str, domain: GuestDomain) -> None:
        """A guest starts only on one host, and only on an active claim."""
        assert self.state(host, domain.uuid) != "absent"
        assert not [h for h in HOSTS if h != host and self.state(h, domain.uuid) == "running"]
        claims = self.cloud.claims(host)
        assert claims[self.claims[host, domain.uuid]].state == "active"
        flavor = domain.claim.flavor
        self._hypervisor(host).start_domain(domain.uuid, flavor.vcpus, flavor.memory_mb)

    def stop(self, host: str, server_uuid: str, claims: Any, check: Check) -> None:
        self._order("stop", host, server_uuid, claims, check, lambda: self._stop(host, server_uuid))

    def _stop(self, host: str, server_uuid: str) -> None:
        if self.state(host, server_uuid) == "running":
            self._hypervisor(host).shut_off(server_uuid)

    def undefine(self, host: str, server_uuid: str, claims: Any, check: Check) -> None:
        self._order(
            "undefine", host, server_uuid, claims, check, lambda: self._undefine(host, server_uuid)
        )

    def _undefine(self, host: str, server_uuid: str) -> None:
        self._hypervisor(host).domains.pop(server_uuid, None)
        self.claims.pop((host, server_uuid), None)

    def live_migrate(
        self, source: str, dest: str, domain: GuestDomain, claims: Any, check: Check
    ) -> None:
        def migrate() -> None:
            self._check_claim("migrate", source, domain.uuid, claims)
            self._migrate(source, dest, domain)

        self._order("live_migrate", dest, domain.uuid, (domain.claim.uuid,), check, migrate)

    def _migrate(self, source: str, dest: str, domain: GuestDomain) -> None:
        if self.state(dest, domain.uuid) == "running":
            assert self.state(source, domain.uuid) == "absent"
            return
        if (state := self.state(source, domain.uuid)) != "running":
            raise EnactmentFailed(host=source, server_uuid=domain.uuid, action="migrate", why=state)
        claim = self.cloud.claims(dest).get(domain.claim.uuid)
        assert claim.state in ("incoming", "outgoing") if claim is not None else self.lost_leases
        self._undefine(source, domain.uuid)
        self._define(dest, domain)
        flavor = domain.claim.flavor
        self._hypervisor(dest).start_domain(domain.uuid, flavor.vcpus, flavor.memory_mb)

    def _order(
        self,
        action: str,
        host: str,
        uuid: str,
        claims: Any,
        check: Check,
        order: Callable[[], None],
    ) -> None:
        def obey() -> None:
            if self._hypervisor(host).lost:
                raise HypervisorUnavailable(f"{host} does not answer")
            if self.refuses.get(host) == action:
                raise EnactmentFailed(host=host, server_uuid=uuid, action=action, why="refused")
            check()
            self._check_claim(action, host, uuid, claims)
            order()

        self.cloud.faults.around(f"{action} at {host}", obey)

    def _check_claim(self, action: str, host: str, uuid: str, claims: Any) -> None:
        if self.state(host, uuid) != "absent":
            of = self.claims.get((host, uuid))
            if of not in claims:
                raise ClaimMismatch(
                    host=host, server_uuid=uuid, action=action, why=f"it is of {of}"
                )

    def _hypervisor(self, host: str) -> Any:
        return self.cloud.hosts[HOSTS.index(host)].world


class Store:
    """Passes calls on to a store of servers, through the faults."""

    def __init__(self, store: MemoryServerStore, faults: Callable[[], Faults]) -> None:
        self._store, self._faults = store, faults

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if name not in ("begin", "save"):  # a beat comes from a thread of its own
            return method
        return lambda *args, **named: self._faults().around(name, lambda: method(*args, **named))


class Hooks:
    """Records the calls of hooks, and calls back."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud, self.calls = cloud, list[str]()
        self.actions: dict[str, Callable[[], object]] = {}

    def prepare(self, server: Server, host: str) -> None:
        self._called(f"prepare at {host}")

    def copy(self, server: Server, source: str, dest: str) -> None:
        self._called(f"copy from {source} to {dest}")

    def save(self, server: Server, host: str) -> None:
        self._called(f"save at {host}")

    def cleanup(self, server: Server, host: str) -> None:
        self._called(f"cleanup at {host}")

    def _called(self, name: str) -> None:
        def act() -> None:
            self.calls.append(name)
            self.actions.get(name, self.actions.get(name.split(maxsplit=1)[0], lambda: None))()

        self.cloud.faults.around(f"hook {name}", act)
