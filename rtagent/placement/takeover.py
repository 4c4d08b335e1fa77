"""Takeover: what an agent does in Placement at its start, before it publishes anything.

It adopts the providers that another publisher made for this host, and reshapes what is older than
the agent's tree. Each step may be interrupted and repeated: the next start sees in Placement what
was done.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from http import HTTPStatus
from typing import Any

import msgspec
import os_resource_classes as orc
from msgspec.structs import replace

from rtagent.errors import PlacementConflict, PlacementError
from rtagent.model.base import Value
from rtagent.model.consumers import INSTANCE, MIGRATION
from rtagent.model.node_state import NodeState
from rtagent.model.provider_names import device_suffix, provider_name, provider_uuid
from rtagent.placement.adoption import (
    Adoption,
    AdoptionFile,
    Child,
    adopt,
    adopted_contents,
    adoption_of,
    can_adopt,
    device_children,
)
from rtagent.placement.client import HttpPlacement
from rtagent.placement.consumers import UNTYPED, ConsumerRecord, read_record
from rtagent.placement.provider import (
    Contents,
    CurrentProvider,
    Ownership,
    Provider,
    Tree,
    inventory_records,
)
from rtagent.placement.reshape import Reshape, ReshapeRefusal, plan_reshape
from rtagent.placement.synchroniser import Synchroniser, read_contents
from rtagent.placement.tree import (
    Layout,
    ProviderLayout,
    Quantities,
    WantedLayout,
    consumers_with,
    new_pools,
    old_pools,
    wanted_layout,
)


class FoundProviders(Value, frozen=True, kw_only=True):
    """The providers that were found in Placement.

    :ivar owned: what the agent owns of the providers that it adopts.
    :ivar reserved: the suffixes of those that are wholly reserved, and not allocated.
    """

    adoption: Adoption
    reserved: frozenset[str] = frozenset()
    owned: tuple[tuple[Provider, Contents], ...] = ()


class Takeover:
    """For the thread of the mirror.

    :ivar done: Placement has the layout of the agent's tree.
    """

    def __init__(
        self,
        api: HttpPlacement,
        ownership: Ownership,
        file: AdoptionFile,
        state: Callable[[], NodeState],
        wanted: Callable[[], Tree | None],
        put_in_force: Callable[[Adoption], None],
        quarantine: Callable[[Sequence[str]], None],
    ) -> None:
        """:param wanted: returns the tree of the state.
        :param put_in_force: makes an adoption a part of the policy; raises `PlacementError` if it
            cannot. :param quarantine: the same for used devices, by their addresses.
        """
        self._api, self._ownership, self._file = api, ownership, file
        self._state, self._wanted, self._put_in_force = state, wanted, put_in_force
        self._quarantine = quarantine
        self._synchroniser = Synchroniser(api, ownership)
        self.done = False
        self._disk_is_known = False

    def prepare(self, reading: bool) -> bool:
        """Do what has to be done before a round publishes, and return whether the wanted tree has
        changed.

        :param reading: the round looks for what other writers changed.
        :raises PlacementError: nothing may be published in this round but whether the host is
            disabled.
        """
        before = self._adoption, self._state().devices
        if not self.done:
            self._adopt()
        if reading or not self._disk_is_known:
            self._disk_is_known = False
            self._apply(replace(self._adoption, disk_provider=disk_provider(self._api, self._root)))
            self._disk_is_known = True
        if not self.done:
            self._reshape()
            self.done = True
        return (self._adoption, self._state().devices) != before

    @property
    def _root(self) -> str:
        return self._state().node.uuid

    @property
    def _adoption(self) -> Adoption:
        return adoption_of(self._state())

    def _adopt(self) -> None:
        finding = find(self._api, self._ownership, self._state(), self._wanted())
        self._apply(finding.adoption)
        # nova-compute reserves a device for one use from its use on; only an operator ends that.
        used = [
            address
            for address, device in sorted(self._state().devices.items())
            if device.tags.one_time_use and device_suffix(address) in finding.reserved
        ]
        if used:
            self._quarantine(used)
        for provider, contents in finding.owned:
            self._ownership.remember(provider, contents)

    def _apply(self, adoption: Adoption) -> None:
        """Put the adoption in force, durably, if it differs from that in force."""
        if adoption != self._adoption:
            self._file.write(adoption)
            self._put_in_force(adoption)

    def _reshape(self) -> None:
        plan = self._plan()
        if isinstance(plan, Reshape):
            self._create(plan)
            plan = self._plan()  # the providers now exist, and have generations
        if isinstance(plan, ReshapeRefusal):
            raise refused(plan)
        if isinstance(plan, Reshape):
            self._send(plan)

    def _plan(self) -> Reshape | ReshapeRefusal | None:
        tree = self._wanted()
        return None if tree is None else read_and_plan(self._api, self._state(), tree)[1]

    def _create(self, plan: Reshape) -> None:
        """Create the providers that the plan needs and Placement lacks, without inventories."""
        tree = self._wanted()
        for provider in tree.providers if tree else ():
            each = plan.providers.get(provider.uuid)
            if each is not None and each.absent:
                for problem in self._synchroniser.sync_provider(replace(provider, inventories={})):
                    raise problem
        self._synchroniser.forget()

    def _send(self, plan: Reshape) -> None:
        names = {name for each in plan.providers.values() for name in each.inventories}
        self._api.ensure_classes(sorted(names))
        try:
            self._api.reshape(*_documents(plan))
        except PlacementError as error:
            if error.kwargs.get("status") != HTTPStatus.FORBIDDEN:
                raise
            raise PlacementError(
                f"Placement does not allow this agent's user to reshape: {error.message}. Give the"
                " user of [placement] the role service (openstack role add --user USER --project"
                " PROJECT service), or let it do placement:reshaper:reshape in Placement's policy",
                status=HTTPStatus.FORBIDDEN,
            ) from error


def find(
    api: HttpPlacement, ownership: Ownership, state: NodeState, wanted: Tree | None
) -> FoundProviders:
    """Find the providers of this host that the agent adopts. Only providers that it does not own
    yet are read.
    """
    node = state.node
    listing = api.tree(node.uuid)
    names = {provider.name for provider in wanted.providers} if wanted else set()
    present = device_children(node, listing)
    own: list[Child] = []
    owned: list[tuple[Provider, Contents]] = []
    reserved = set[str]()
    for child in present:
        if ownership.knows(child.uuid):
            own.append(child)
            continue
        current = read_contents(api, child.uuid)
        if can_adopt(current.traits, wanted=child.name in names):
            own.append(child)
            owned.append(_adopted(child.uuid, child.name, node.uuid, current))
            whole = any(each.reserved >= each.total for each in current.inventories.values())
            if whole and not api.allocations(child.uuid)["allocations"]:
                reserved.add(child.suffix)
    if any(each["uuid"] == node.uuid for each in listing) and not ownership.knows(node.uuid):
        current = read_contents(api, node.uuid)
        owned.append(_adopted(node.uuid, provider_name(node, ""), None, current))
    return FoundProviders(
        adoption=adopt(node, adoption_of(state), present, own),
        owned=tuple(owned),
        reserved=frozenset(reserved),
    )


def next_adoption(
    api: HttpPlacement, ownership: Ownership, state: NodeState, wanted: Tree | None
) -> FoundProviders:
    """Return what the next start of an agent adopts. Nothing is changed."""
    finding = find(api, ownership, state, wanted)
    shared = replace(finding.adoption, disk_provider=disk_provider(api, state.node.uuid))
    return replace(finding, adoption=shared)


def disk_provider(api: HttpPlacement, root: str) -> str | None:
    """Return the provider that shares disk with a root, or None. The first by uuid, if there are
    several.
    """
    try:
        aggregates = api.aggregates(root)
    except PlacementConflict:  # there is no such provider yet
        return None
    shared = sorted(str(each["uuid"]) for each in api.sharing_providers(aggregates))
    with_disk = (
        u for u in shared if u != root and orc.DISK_GB in api.inventories(u)["inventories"]
    )
    return next(with_disk, None)


def refused(refusal: ReshapeRefusal) -> PlacementError:
    """Return the error for a refusal, with its remedy."""
    return PlacementError(
        f"Placement's older records of this host cannot be reshaped: {refusal}. Only"
        " whether the host is disabled is published until that is resolved. Claim the guest here"
        " with the device that it has. If the guest is gone, delete its allocations (openstack"
        f" resource provider allocation delete {refusal.consumer}). rtagent placement reshape"
        " --dry-run shows the plan",
        consumer_uuid=refusal.consumer,
    )


def read_and_plan(
    api: HttpPlacement, state: NodeState, tree: Tree
) -> tuple[Layout, Reshape | ReshapeRefusal | None]:
    """Read what is needed, and plan the reshape of a state's tree."""
    wanted = wanted_layout(state, tree)
    now = _with_allocations(api, state, _read_inventories(api, state, tree), wanted)
    return now, plan_reshape(now, wanted)


def _read_inventories(api: HttpPlacement, state: NodeState, tree: Tree) -> Layout:
    """Read the inventories of this agent's providers: the root, and the children of devices."""
    node, policy = state.node, state.policy.placement
    listing = api.tree(node.uuid)
    own = {provider.uuid for provider in tree.providers} | {
        child.uuid
        for child in device_children(node, listing)
        if child.uuid == provider_uuid(node, policy, child.suffix)
    }
    return Layout(
        providers={
            each["uuid"]: ProviderLayout(
                name=each["name"],
                generation=found["resource_provider_generation"],
                inventories=inventory_records.convert(found["inventories"]),
            )
            for each in listing
            if each["uuid"] in own
            for found in [api.inventories(each["uuid"])]
        }
    )


def _with_allocations(
    api: HttpPlacement, state: NodeState, now: Layout, wanted: WantedLayout
) -> Layout:
    """Read the allocations that the plan depends on; none, if no inventory moves or is new."""
    moving = set(old_pools(now, wanted))
    users = {user for pool in new_pools(now, wanted) for user in consumers_with(wanted, pool)}
    if not moving and not users:
        return now
    names = {name for _, name in moving}
    targets = {uuid for uuid, name in wanted.inventories if name in names}
    listed: dict[str, Mapping[str, Quantities]] = {
        uuid: {user: part["resources"] for user, part in found["allocations"].items()}
        for uuid in sorted((targets | {uuid for uuid, _ in moving}) & now.providers.keys())
        for found in [api.allocations(uuid)]
    }
    users |= {user for uuid, name in moving for user, part in listed[uuid].items() if name in part}
    consumers = dict(_consumers(api, state, users))
    providers = {
        uuid: replace(
            provider,
            allocations={
                # A consumer may have changed since its providers were read.
                **{user: a for user, a in listed.get(uuid, {}).items() if user not in users},
                **{u: c.allocations[uuid] for u, c in consumers.items() if uuid in c.allocations},
            },
        )
        for uuid, provider in now.providers.items()
    }
    return Layout(providers=providers, consumers=consumers)


def _consumers(
    api: HttpPlacement, state: NodeState, uuids: Set[str]
) -> Iterator[tuple[str, ConsumerRecord]]:
    """Yield those that have allocations."""
    for uuid in sorted(uuids):
        record = read_record(api, uuid)
        if record.consumer_type == UNTYPED:  # as Nova writes them
            type_ = MIGRATION if uuid in state.migrations else INSTANCE
            record = replace(record, consumer_type=type_)
        if record.allocations:
            yield uuid, record


def _documents(plan: Reshape) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the inventories and the allocations of ``POST /reshaper``."""
    inventories = {
        uuid: {
            "inventories": msgspec.to_builtins(each.inventories),
            "resource_provider_generation": each.generation,
        }
        for uuid, each in plan.providers.items()
    }
    return inventories, {uuid: each.body(each.generation) for uuid, each in plan.consumers.items()}


def _adopted(
    uuid: str, name: str, parent: str | None, current: CurrentProvider
) -> tuple[Provider, Contents]:
    contents = adopted_contents(current, root=parent is None)
    provider = Provider(uuid=uuid, name=name, parent=parent, inventories={}, traits=frozenset())
    return provider, contents
