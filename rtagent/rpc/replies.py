"""What methods answer, where it is not a claim itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rtagent.audit import AuditSummary
from rtagent.model import claim
from rtagent.model.base import Value


class Reason(Value, frozen=True, kw_only=True):
    """Why one resource cannot be had.

    :ivar where: the node, cell, pool or provider that was looked at.
    :ivar requested: in ``unit``. :ivar available: in ``unit``.
    :ivar message: the sentence for a person.
    """

    code: str
    resource: str
    where: str
    requested: int
    available: int
    unit: str
    message: str


class Claim(claim.Claim, frozen=True, kw_only=True):
    """A claim, as its caller is told of it.

    :ivar guest: the libvirt XML that enacts it: children of ``<domain>``.
    :ivar node_devices: XML of the mediated devices that the caller creates before it starts the
        domain (``virNodeDeviceCreateXML``).
    """

    guest: str
    node_devices: tuple[str, ...]


class Verdict(Value, frozen=True, kw_only=True):
    """The answer to a claim that is not made.

    :ivar claim: as it would be, under a uuid of zeros; null when refused.
    :ivar reasons: nearest miss first; empty when granted.
    """

    granted: bool
    claim: Claim | None = None
    reasons: tuple[Reason, ...] = ()


class Reading(Value, frozen=True, kw_only=True):
    """What every read tells about the state that it was taken from.

    :ivar revision: the node's. :ivar stale: the store is down, so there may be a newer one.
    """

    revision: int
    stale: bool


class OneClaim(Reading, frozen=True, kw_only=True):
    """One claim, read."""

    claim: Claim


class Claims(Reading, frozen=True, kw_only=True):
    """Claims, read."""

    claims: tuple[Claim, ...]


class OneNode(Reading, frozen=True, kw_only=True):
    """:ivar node: Nova's ComputeNode fields, and the node's revision and epoch."""

    node: Mapping[str, Any]


class Audit(AuditSummary, frozen=True, kw_only=True):
    """What an audit found and did.

    :ivar sentence: all of it, for a person.
    """

    sentence: str


class Mirrored(Value, frozen=True, kw_only=True):
    """:ivar revision: Placement shows the node's state of this one, or a later one like it."""

    revision: int


class Pong(Value, frozen=True, kw_only=True):
    """:ivar version: of the software. :ivar uptime: seconds since the agent began to serve."""

    version: str
    host: str
    node: str
    revision: int
    uptime: float
