"""Every error of rtagent.

::

    RtAgentError
    ├── RequestError                     the caller's to mend; expected, crosses the wire
    │   ├── InvalidRequest               the document breaks its schema
    │   │   ├── InvalidFlavor            flavor and image, taken together, describe no guest
    │   │   │   ├── PropertyInvalid      a value breaks its property's rule
    │   │   │   ├── PropertyConflict     values of several properties exclude each other
    │   │   │   └── FlavorImageConflict  the image overrides what the flavor has decided
    │   │   └── InvalidPciRequest        devices are asked for in a way that means nothing
    │   │       └── PciRequestAliasNotDefined
    │   ├── ClaimNotFound
    │   ├── ClaimConflict                the owner has a claim, or the operation id other content
    │   ├── ClaimExpired                 the claim has ended
    │   ├── IllegalTransition            the claim's state does not allow the call
    │   ├── NodeNotFound
    │   ├── PciDeviceNotFound            no record of a device has that address
    │   └── ComputeResourcesUnavailable  refused, with reasons
    ├── Unavailable                      not now: the same call may succeed later; crosses the wire
    │   ├── NodeNotReady                 the first good audit is still to come
    │   ├── StoreUnavailable
    │   ├── TrackerBusy
    │   ├── HypervisorUnavailable
    │   │   └── CpuPowerFailed           a host CPU cannot be made ready for its guest
    │   └── AgentUnreachable             found by a client: nobody answers
    ├── StoreError                       between a store and the tracker; never crosses the wire
    │   ├── CommitUnknown                the connection went while COMMIT was in flight
    │   ├── RevisionConflict             the node row has another revision than ours
    │   ├── WriterFenced                 a newer writer has raised the epoch
    │   ├── ChangeRejected               the database refused the rows
    │   ├── Deadlock                     the database chose us as its victim
    │   └── SchemaMismatch               the database's schema is not the code's
    ├── IdentityError                    this process must not write for this node
    ├── ConfigError                      an option's value breaks its rule
    │   └── PciConfigError               a document of an option of [pci] does
    │       ├── PciConfigInvalidSpec     device_spec
    │       └── PciInvalidAlias          alias
    ├── PlacementError
    │   ├── PlacementConflict            the provider's generation moved
    │   └── PlacementUnavailable
    └── InvariantViolated                a defect of ours: granting stops

Data lives in ``kwargs`` (JSON primitives) and the sentence is made from it, so that an error
reads the same on both sides of the wire.
"""

from __future__ import annotations

from typing import Any, ClassVar


class RtAgentError(Exception):
    """The root.

    :cvar retriable: the same call may succeed later, unchanged.
    :cvar expected: the caller's or the surroundings' doing; logged without a traceback.
    """

    template: ClassVar[str] = "{detail}"
    retriable: ClassVar[bool] = False
    expected: ClassVar[bool] = False

    def __init__(self, detail: str | None = None, **kwargs: Any) -> None:
        # oslo.messaging rebuilds an error from args and kwargs: all goes into kwargs.
        super().__init__()
        if detail is not None:
            kwargs["detail"] = detail
        self.kwargs: dict[str, Any] = kwargs

    @property
    def message(self) -> str:
        """The sentence, made from the data; the same here and on the other side of the wire."""
        return self.template.format(**{"detail": type(self).__doc__, **self.kwargs})

    def __str__(self) -> str:
        return self.message

    def as_dict(self) -> dict[str, Any]:
        """Shape: ``{"error", "message", "retriable", ...kwargs}``, JSON primitives."""
        return {
            **self.kwargs,
            "error": type(self).__name__,
            "message": self.message,
            "retriable": self.retriable,
        }


class RequestError(RtAgentError):
    """The call cannot be granted as it stands."""

    expected = True


class InvalidRequest(RequestError):
    """The document breaks its schema.

    :ivar kwargs: ``method`` and ``errors``: a list of ``{"path", "message"}``.
    """

    @property
    def message(self) -> str:
        listed = "; ".join(f"{e['path']}: {e['message']}" for e in self.kwargs.get("errors", ()))
        return f"invalid request to {self.kwargs.get('method', '?')}: {listed}"


class InvalidFlavor(InvalidRequest):
    """Flavor and image, taken together, describe no guest.

    :ivar kwargs: ``properties``: the value of each property concerned, by its name (``hw:...`` in
        the flavor, ``hw_...`` in the image, ``flavor.vcpus`` and the like); and ``rule``, broken.
    """

    @property
    def message(self) -> str:
        sides = (f"{name}={value}" for name, value in self.kwargs.get("properties", {}).items())
        return f"{', '.join(sides)}: {self.kwargs.get('rule', '?')}"


class PropertyInvalid(InvalidFlavor):
    """A value breaks its property's rule."""


class PropertyConflict(InvalidFlavor):
    """Values of several properties exclude each other."""


class FlavorImageConflict(InvalidFlavor):
    """The image asks for something else than the flavor, and may not."""


class InvalidPciRequest(InvalidRequest):
    """Devices are asked for in a way that means nothing.

    :ivar kwargs: ``where`` it is asked (an extra spec, a request), its ``value``, and the broken
        ``rule``.
    """

    @property
    def message(self) -> str:
        return f"{self.kwargs['where']} = {self.kwargs['value']}: {self.kwargs['rule']}"


class PciRequestAliasNotDefined(InvalidPciRequest):
    """No [pci] alias of this host has that name."""


class ClaimNotFound(RequestError):
    """No such claim on this node.

    :ivar kwargs: ``claim_uuid``; or, of a claim that is told by its owner, ``owner_id`` and, where
        it is the one for a move, ``migration_uuid``.
    """

    @property
    def message(self) -> str:
        if "claim_uuid" in self.kwargs:
            return f"no claim {self.kwargs['claim_uuid']} is known here"
        move = self.kwargs.get("migration_uuid")
        which = f" for migration {move}" if move else ""
        return f"instance {self.kwargs['owner_id']} has no claim here{which}"


class PciDeviceNotFound(RequestError):
    """No device of that address is offered, or held, here."""

    template = "no PCI device {address} is known here: rtagent pci list shows those that are"


class ClaimConflict(RequestError):
    """The owner has a live claim already, or the operation id was used for something else."""


class ClaimExpired(RequestError):
    """The claim has ended; nothing may be started on it."""

    template = "claim {claim_uuid} has ended: take a new claim before starting anything"


class IllegalTransition(RequestError):
    """The state of the claim, or of the move, does not allow the call.

    :ivar kwargs: ``claim_uuid`` or ``migration_uuid``, its ``state``, the ``verb``, and what is
        ``legal`` there.
    """

    @property
    def message(self) -> str:
        noun = "claim" if "claim_uuid" in self.kwargs else "migration"
        return "{noun} {uuid} is {state}: {verb} is not legal there (legal: {legal})".format(
            noun=noun, uuid=self.kwargs[f"{noun}_uuid"], **self.kwargs
        )


class NodeNotFound(RequestError):
    """The node named is not this hypervisor."""

    template = "node {node} is not served here: this agent serves {served}"


class ComputeResourcesUnavailable(RequestError):
    """The host cannot hold what was asked for.

    :ivar kwargs: ``reasons``: a list of ``{"code", "resource", "where", "requested",
        "available", "unit", "message"}``, nearest miss first.
    """

    @property
    def message(self) -> str:
        return "; ".join(r["message"] for r in self.kwargs.get("reasons", ()))


class Unavailable(RtAgentError):
    """Not now; the same call may succeed later."""

    retriable = True
    expected = True


class NodeNotReady(Unavailable):
    """The agent has not finished its first audit; retry in a few seconds."""


class StoreUnavailable(Unavailable):
    """The database does not answer; retry with the same operation id."""


class TrackerBusy(Unavailable):
    """The call waited its time for the tracker and was withdrawn; nothing was claimed."""


class HypervisorUnavailable(Unavailable):
    """The hypervisor does not answer; nothing new is claimed until it is back."""


class CpuPowerFailed(HypervisorUnavailable):
    """A host CPU cannot be switched on or off, or given another governor.

    :ivar kwargs: ``cpu``, the ``file`` to which ``wanted`` was written in vain, and ``why``.
    """

    template = "CPU {cpu}: {wanted} cannot be written to {file}: {why}"


class AgentUnreachable(Unavailable):
    """A client's own finding: no agent answers; whether the call had an effect is not known.

    :ivar kwargs: ``where`` it was called, ``why`` it failed, and the ``remedy``.
    """

    template = "no agent at {where} ({why}): {remedy}"


class StoreError(RtAgentError):
    """What a store tells the tracker."""


class CommitUnknown(StoreError):
    """The connection went while COMMIT was in flight: the outcome is in the database only."""


class RevisionConflict(StoreError):
    """The node's row has another revision than this process's."""


class WriterFenced(StoreError):
    """A newer writer has taken this node over; this process must stop."""

    template = (
        "node {node_uuid}: a newer writer holds epoch {theirs}, ours is {ours}: stopping. Another"
        " agent has taken the node over, or its record was removed: see that no other serves it"
        " before this one is started again"
    )


class ChangeRejected(StoreError):
    """The database refused the rows.

    :ivar kwargs: ``taken``: because a key of them is taken; a claim's uuid may be another node's.
    """


class Deadlock(StoreError):
    """The database ended the transaction in favour of another; nothing was written."""


class SchemaMismatch(StoreError):
    """The database's schema is not the one that this code writes."""


class IdentityError(RtAgentError):
    """This process must not write for this node; the message names the remedy."""

    expected = True


class ConfigError(RtAgentError):
    """An option's value breaks its rule."""

    template = "[{group}] {option} = {value}: {rule}"
    expected = True


class PciConfigError(ConfigError):
    """One of the JSON documents of an option of [pci] is wrong.

    :ivar kwargs: ``index``: its place among the option's values, from 0, and in a list of
        documents its place there (``1[0]``); ``key``: in it, or ""; its ``value``; the ``rule``.
    """

    template = "[{group}] {option} {index}: {key} = {value}: {rule}"


class PciConfigInvalidSpec(PciConfigError):
    """[pci] device_spec."""


class PciInvalidAlias(PciConfigError):
    """[pci] alias."""


class PlacementError(RtAgentError):
    """Placement refused or failed a request."""

    expected = True


class PlacementConflict(PlacementError):
    """Placement's generation of a provider is not the one we knew."""


class PlacementUnavailable(PlacementError):
    """Placement does not answer, or answers with a server error."""

    retriable = True


class InvariantViolated(RtAgentError):
    """The state breaks one of its own rules: a defect. Granting stops until a restart."""
