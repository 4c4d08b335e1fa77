"""What the core asks of the world. Adapters satisfy these; fakes ship beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from rtagent.model.base import Value
from rtagent.model.change import Change, Operation
from rtagent.model.claim import Claim
from rtagent.model.device import PciDevice
from rtagent.model.holding import Holding
from rtagent.model.host import HostState
from rtagent.model.migration import Migration, TakenOver
from rtagent.model.node import Node, NodeRecord, Ratios, Writer
from rtagent.model.observation import Observation
from rtagent.model.specific import SpecificInventory
from rtagent.model.topology import Topology


class Clock(Protocol):
    """Time, as an argument."""

    def now(self) -> datetime:
        """UTC, aware."""
        ...

    def monotonic(self) -> float:
        """Seconds from some fixed point."""
        ...


class Stored(Value, frozen=True, kw_only=True):
    """All that a store holds of one node: live claims only."""

    node: Node
    revision: int
    epoch: int
    claims: tuple[Claim, ...] = ()
    holdings: tuple[Holding, ...] = ()
    migrations: tuple[Migration, ...] = ()
    devices: tuple[PciDevice, ...] = ()
    specific: tuple[SpecificInventory, ...] = ()
    topology: Topology | None = None
    ratios: Ratios = Ratios()
    failed_builds: int = 0
    disk_available_least: int | None = None


#: Given the records with this node's uuid or hypervisor hostname: the record to write (its epoch is
#: the one that the writer will have), or an `IdentityError`.
Enroll = Callable[[Sequence[NodeRecord]], NodeRecord]


class Store(Protocol):
    """Durable state. Every method is one transaction, bounded by the operation timeout.

    All raise `StoreUnavailable` when the database did not do it and state is unchanged.
    """

    def enroll(self, uuid: str, hypervisor_hostname: str, enroll: Enroll) -> Stored:
        """Become the writer: read the records, apply the rule, write the outcome, read everything.

        :raises IdentityError: from the rule; nothing is written then.
        """
        ...

    def load(self, node_uuid: str) -> Stored:
        """Everything of the node, read in one transaction; writes nothing."""
        ...

    def reload(self, node_uuid: str, epoch: int) -> Stored:
        """First raise the epoch by one, requiring ours; then read everything.

        Writing first waits for, or defeats, a commit that is still in flight. An epoch raised by
        an earlier reload of this same process (`Writer.process`), whose answer was lost, is ours.

        :raises WriterFenced: another process has raised the epoch.
        """
        ...

    def commit(self, before: HostState, after: HostState, changes: Sequence[Change]) -> None:
        """Write the changes that lead from one state to the other.

        Requires the node's row to have ``before.revision`` and ``before.epoch``.

        :raises RevisionConflict: WriterFenced: Deadlock: nothing was written.
        :raises ChangeRejected: the database refused the rows (an operation id used before, say).
        :raises CommitUnknown: the connection went while COMMIT was in flight.
        """
        ...

    def epoch(self, node_uuid: str) -> int:
        """Of the node's present writer."""
        ...

    def operation(self, node_uuid: str, operation_id: str) -> Operation | None:
        """The record of an operation id, or None."""
        ...

    def evacuated(self, node_uuid: str) -> Mapping[str, TakenOver]:
        """Which of the node's claims are of guests that another node has taken over: it has an
        active claim of kind `evacuation` for the same owner, made after the node's own.

        By uuid of this node's claim. A database of its own knows of
        no other node, and answers with nothing.
        """
        ...

    def purge(self, node_uuid: str, before: datetime) -> int:
        """Forget operations, and claims released, before that time; how many rows went."""
        ...


class Service(Value, frozen=True, kw_only=True):
    """A service's record (Nova's ``services`` row)."""

    host: str
    binary: str
    report_count: int = 0
    last_seen_up: datetime | None = None
    disabled: bool = False
    disabled_reason: str | None = None
    forced_down: bool = False
    version: int = 0


class ServiceRegistry(Protocol):
    """Heartbeats. Raises `StoreUnavailable`."""

    def heartbeat(self, host: str, now: datetime) -> Service:
        """One more report; creates the record the first time. Returns it as it is then."""
        ...

    def set_disabled(self, host: str, disabled: bool, reason: str | None) -> Service:
        """Take the host out of, or back into, scheduling."""
        ...

    def services(self) -> Sequence[Service]:
        """All of them, by host."""
        ...


class HostIdentity(Value, frozen=True, kw_only=True):
    """Who the hypervisor says that it is.

    :ivar hostname: libvirt's. :ivar host_uuid: libvirt's host uuid, or "" where it has none of
        its own (``test://``).
    """

    hostname: str
    host_uuid: str


class Hypervisor(Protocol):
    """The host, observed. Raises `HypervisorUnavailable` when there is no connection."""

    def identity(self) -> HostIdentity:
        """Connect if needed, and say who is there."""
        ...

    def observe(self) -> Observation:
        """One look at everything. A bad item is a `Problem` in it, never an error."""
        ...

    def start(self, on_event: Callable[[str], None]) -> None:
        """Begin to watch: `on_event` gets a word for each event that calls for a targeted audit
        (``lifecycle``, ``device``, ``connection``, ``file``). It must return at once."""
        ...

    def stop(self) -> None:
        """Watch no more and close the connection."""
        ...


class CpuPower(Protocol):
    """The power of host CPUs, by one strategy. What is so already costs a look.

    :ivar switches_off: a CPU that is down is offline, and the hypervisor knows little of it.
    :raises CpuPowerFailed: naming a CPU with which it did not work; the others are as asked.
    """

    switches_off: bool

    def up(self, cpus: Iterable[int]) -> None:
        """Have them ready for guests; they are when this returns."""
        ...

    def down(self, cpus: Iterable[int]) -> None:
        """Have them cost little; nobody needs them."""
        ...


class PlacementAPI(Protocol):
    """Placement's HTTP, one request per call (`ensure_traits`: one more for each that is new;
    `ensure_classes`: one for each).

    :raises PlacementConflict: the provider is not as we knew it: its generation moved, or it is
        gone.
    :raises PlacementUnavailable: no answer, 5xx, or a token refused.
    :raises PlacementError: anything else that is not success; ``code`` in kwargs is Placement's.
    """

    def provider(self, uuid: str) -> Mapping[str, Any] | None:
        """``GET /resource_providers/{uuid}``, or None when there is none."""
        ...

    def provider_named(self, name: str) -> Mapping[str, Any] | None:
        """``GET /resource_providers?name=``: the provider of that name, or None."""
        ...

    def create_provider(self, uuid: str, name: str, parent: str | None = None) -> Mapping[str, Any]:
        """``POST /resource_providers``: the provider as created.

        :raises PlacementError: with the code of a duplicate: the name or the uuid is taken.
        """
        ...

    def delete_provider(self, uuid: str) -> None:
        """``DELETE /resource_providers/{uuid}``; one that is gone already is no error.

        :raises PlacementError: with the code of one in use: somebody has an allocation from it.
        """
        ...

    def inventories(self, uuid: str) -> Mapping[str, Any]:
        """``{"inventories": {class: {...}}, "resource_provider_generation"}``."""
        ...

    def put_inventories(
        self, uuid: str, generation: int, inventories: Mapping[str, Mapping[str, Any]]
    ) -> int:
        """Replace all; the new generation."""
        ...

    def traits(self, uuid: str) -> Mapping[str, Any]:
        """``{"traits": [...], "resource_provider_generation"}``."""
        ...

    def put_traits(self, uuid: str, generation: int, traits: Sequence[str]) -> int:
        """Replace all; the new generation."""
        ...

    def ensure_traits(self, names: Sequence[str]) -> frozenset[str]:
        """Create the CUSTOM_* names that do not exist yet; those of `names` that exist then."""
        ...

    def ensure_classes(self, names: Sequence[str]) -> None:
        """Create the CUSTOM_* resource classes among `names` that do not exist yet."""
        ...

    def allocations(self, uuid: str) -> Mapping[str, Any]:
        """``{"allocations": {consumer: {...}}}`` of a provider."""
        ...


class Reporter(Protocol):
    """Told what happens; every method is called without a lock held and must return at once."""

    def timed(self, name: str, purpose: str, seconds: float) -> None:
        """A duration, by name (``lock_wait``, ``lock_hold``, ``audit``, ``rpc``, ``placement``)
        and purpose."""
        ...

    def counted(self, name: str, label: str, number: int = 1) -> None:
        """Something happened: ``refused`` by code, ``granted`` by kind, ``skipped`` ..."""
        ...

    def health(self, part: str, status: str, output: str = "") -> None:
        """A part's state: ``pass``, ``warn`` or ``fail``, and why."""
        ...

    def said(self, level: str, sentence: str) -> None:
        """A sentence for the log: ``debug``, ``info``, ``warning`` or ``error``."""
        ...


class Silence:
    """A Reporter that is told everything and says nothing."""

    def timed(self, name: str, purpose: str, seconds: float) -> None:
        pass

    def counted(self, name: str, label: str, number: int = 1) -> None:
        pass

    def health(self, part: str, status: str, output: str = "") -> None:
        pass

    def said(self, level: str, sentence: str) -> None:
        pass


__all__ = [
    "Clock",
    "CpuPower",
    "Enroll",
    "HostIdentity",
    "Hypervisor",
    "PlacementAPI",
    "Reporter",
    "Service",
    "ServiceRegistry",
    "Silence",
    "Store",
    "Stored",
    "Writer",
]
