"""The decision on a request: granted with a change, or refused with every reason."""

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from typing import Any, Concatenate, ParamSpec

from rtagent.model.base import Value
from rtagent.model.change import Call, Change, Event
from rtagent.model.claim import Claim
from rtagent.model.node_state import NodeState


class ReasonCode(enum.StrEnum):
    """Stable codes: callers match on them, and they label a metric."""

    INSUFFICIENT = "insufficient"
    EXCEEDS_HOST = "exceeds_host"
    EXCEEDS_CELL = "exceeds_cell"
    NOT_OFFERED = "not_offered"
    NOT_CONFIGURED = "not_configured"
    NOT_A_MULTIPLE = "not_a_multiple"
    BELOW_MINIMUM = "below_minimum"
    UNDECIDED = "undecided"
    UNKNOWN_USAGE = "unknown_usage"


class Reason(Value, frozen=True, kw_only=True):
    """Why one resource is unavailable.

    :ivar where: the node, cell, pool or provider that was examined.
    :ivar requested: in ``unit``. :ivar available: in ``unit``.
    :ivar option: the option that the operator would set to offer it, or "".
    :ivar domain: the running domain that may use more of it than is known, or "".
    """

    code: ReasonCode
    resource: str
    where: str
    requested: int
    available: int
    unit: str
    option: str = ""
    domain: str = ""

    def __str__(self) -> str:
        asked = f"{self.resource}: {self.requested} {self.unit} requested at {self.where}"
        match self.code:
            case ReasonCode.INSUFFICIENT:
                return f"{asked}, {self.available} available"
            case ReasonCode.EXCEEDS_HOST:
                return f"{asked}, the host has {self.available} in all"
            case ReasonCode.EXCEEDS_CELL:
                return f"{asked}, which has {self.available} in all"
            case ReasonCode.NOT_OFFERED:
                return f"{asked}, which this host does not offer"
            case ReasonCode.NOT_CONFIGURED:
                return f"{asked}, which this host offers only with {self.option}"
            case ReasonCode.NOT_A_MULTIPLE:
                unit = (
                    f"multiple of {self.available}" if self.available else "whole number of pages"
                )
                return f"{asked}, which is no {unit}"
            case ReasonCode.BELOW_MINIMUM:
                return f"{asked}, the least that one claim may have is {self.available}"
            case ReasonCode.UNDECIDED:
                return f"{asked}, and the search for a place reached its bound without finding one"
            case ReasonCode.UNKNOWN_USAGE:
                return (
                    f"{asked}, but the use by domain {self.domain} is unknown: correct what the"
                    " audit cannot read of it (rtagent audit run says what), or stop it"
                )

    def as_dict(self) -> dict[str, object]:
        """Return the reason as a document, for the error."""
        return {
            "code": str(self.code),
            "resource": self.resource,
            "where": self.where,
            "requested": self.requested,
            "available": self.available,
            "unit": self.unit,
            "message": str(self),
        }

    @property
    def miss(self) -> Fraction:
        """The missing part of what was requested: 0 is a fit, 1 is nothing available."""
        return Fraction(self.requested - self.available, max(1, self.requested))


class Refused(Value, frozen=True):
    """A refusal with every reason, nearest miss first."""

    reasons: tuple[Reason, ...]

    def __str__(self) -> str:
        return "; ".join(map(str, self.reasons))


class Granted(Value, frozen=True):
    """The change to commit, and the claims as they are after it."""

    change: Change
    claims: tuple[Claim, ...] = ()


Decision = Granted | Refused

P = ParamSpec("P")
#: Decides a call on the current state, at the current time.
Rule = Callable[Concatenate[NodeState, Call, datetime, P], Decision]


def created(
    call: Call, claim: Claim, now: datetime, action: str = "create", reason: str = "", **parts: Any
) -> Granted:
    """Grant a new claim.

    :param action: and :param reason: of the event with which the claim's history begins.
    :param parts: other parts of the `Change`.
    """
    event = Event(before=None, after=claim, action=action, reason=reason)
    operations = (call.operation(claim),)
    change = call.change(now, puts=(claim,), operations=operations, events=(event,), **parts)
    return Granted(change, (claim,))


def refuse(reasons: Iterable[Reason]) -> Refused:
    """Refuse for these reasons, ordered: nearest miss first, then by resource."""
    return Refused(tuple(sorted(reasons, key=lambda r: (r.miss, r.resource))))


NUMA = "Requested instance NUMA topology cannot fit the given host NUMA topology"
NUMA_WITH_DEVICES = (
    "Requested instance NUMA topology together with requested PCI devices cannot fit the given"
    " host NUMA topology"
)
DEVICES = "Claim pci failed"
PAGE_SIZE = "Requested page size is different from current page size."

#: Resources of a host as a whole, which may be short without regard to its cells.
_AMOUNTS = frozenset({"VCPU", "MEMORY_MB", "DISK_GB"})
#: Resources that only the fit to the host's cells needs.
_OF_CELLS = frozenset({"PCPU", "NUMA_CELL", "emulator threads"})


def nova_reason(reasons: Sequence[Mapping[str, Any]], *, live_migration: bool = False) -> str:
    """Return Nova's sentence for a refusal, followed by what is requested and available.

    It is the ``reason`` of Nova's ``ComputeResourcesUnavailable``, which puts "Insufficient compute
    resources: " before it. Without a sentence of Nova's, it is the numbers alone.

    :param reasons: ``kwargs["reasons"]`` of `ComputeResourcesUnavailable`.
    :param live_migration: the guest keeps the page sizes that it has at its source.
    """
    numbers = "; ".join(str(each["message"]) for each in reasons)
    sentence = _sentence(reasons, live_migration)
    if not sentence:
        return numbers
    return f"{sentence} {numbers}" if sentence.endswith(".") else f"{sentence}: {numbers}"


def _sentence(reasons: Sequence[Mapping[str, Any]], live_migration: bool) -> str:
    devices = [each for each in reasons if str(each["resource"]).startswith("PCI ")]
    if live_migration and any(map(_is_of_pages, reasons)):
        return PAGE_SIZE
    if any(map(_is_of_cells, reasons)):
        return NUMA_WITH_DEVICES if devices else NUMA
    if any(" cells " in each["where"] for each in devices):  # elsewhere there are enough
        return NUMA_WITH_DEVICES
    return DEVICES if devices else next(filter(None, map(_of_class, reasons)), "")


def _of_class(reason: Mapping[str, Any]) -> str:
    """Return Nova's sentence for resources that are assigned one by one; "": it is about others."""
    if reason["unit"] != "units" or reason["code"] != ReasonCode.INSUFFICIENT:
        return ""
    needed = f"Needed {reason['requested']} units of resource class {reason['resource']}"
    return f"{needed}, but {reason['available']} are available."


def _is_of_pages(reason: Mapping[str, Any]) -> bool:
    return str(reason["resource"]).endswith(" pages")


def _is_of_cells(reason: Mapping[str, Any]) -> bool:
    """Return whether a reason is about the host's cells, or about CPUs and pages in them."""
    resource = str(reason["resource"])
    if resource in _AMOUNTS:
        in_cell = str(reason["where"]).startswith("cell")
        return in_cell or reason["code"] == ReasonCode.NOT_CONFIGURED
    affinity = resource.startswith("NUMA affinity of ")
    return affinity or resource in _OF_CELLS or _is_of_pages(reason)
