"""The types of the replies of an agent's methods, and the difference between the clocks of a caller
and of a server, which ``ping`` shows.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from rtagent.audit import AuditSummary
from rtagent.model.base import Value
from rtagent.model.claim import Claim as ModelClaim
from rtagent.model.store_restore import StoreRestore


class Reason(Value, frozen=True, kw_only=True):
    """Why one resource is not available.

    :ivar where: the node, cell, pool or provider that was examined.
    :ivar requested: in ``unit``. :ivar available: in ``unit``.
    :ivar message: a sentence for a person.
    """

    code: str
    resource: str
    where: str
    requested: int
    available: int
    unit: str
    message: str


class Claim(ModelClaim, frozen=True, kw_only=True):
    """A claim, with the documents that enact it.

    :ivar guest: libvirt XML: children of ``<domain>``.
    :ivar node_devices: XML of the mediated devices that the caller creates before it starts the
        domain (``virNodeDeviceCreateXML``).
    """

    guest: str
    node_devices: tuple[str, ...]


class ClaimAnswer(Value, frozen=True, kw_only=True):
    """The answer to one build of several.

    :ivar claim: null: there is none. :ivar error: why: ``error`` is the name of one of the method's
        errors, ``message`` a sentence, ``retriable`` whether the same call may succeed later; and
        what the error says further.
    """

    claim: Claim | None = None
    error: Mapping[str, Any] | None = None


class ClaimAnswers(Value, frozen=True, kw_only=True):
    """:ivar answers: in the order of the call."""

    answers: tuple[ClaimAnswer, ...]


class TestedRelease(Value, frozen=True, kw_only=True):
    """:ivar guest_runs: the guest of the claim runs on this host, as of the last audit."""

    claim: Claim
    guest_runs: bool


class Adopted(Value, frozen=True, kw_only=True):
    """:ivar claim: of the domain; of a test: as it would be, with a uuid of zeros.
    :ivar notes: sentences for the operator.
    """

    claim: Claim
    notes: tuple[str, ...] = ()


class Verdict(Value, frozen=True, kw_only=True):
    """The decision about a claim that was tested but not made.

    :ivar claim: the claim as it would be, with a uuid of zeros; null when refused.
    :ivar reasons: nearest miss first; empty when granted.
    """

    granted: bool
    claim: Claim | None = None
    reasons: tuple[Reason, ...] = ()


class Draining(Value, frozen=True, kw_only=True):
    """Whether the node drains. :ivar since: when that began. :ivar claims: how many remain."""

    node: str
    draining: bool
    reason: str
    deadline: datetime | None
    since: datetime | None
    claims: int


class Document(Value, frozen=True, kw_only=True):
    """A reply of the read API. :ivar status: of HTTP. :ivar body: a text; of most paths, JSON."""

    status: int
    body: str


class Reading(Value, frozen=True, kw_only=True):
    """The state that a reply was read from.

    :ivar revision: the node's revision. :ivar stale: the store is down, so a newer revision may
        exist.
    """

    revision: int
    stale: bool


class OneClaim(Reading, frozen=True, kw_only=True):
    """One claim, as read."""

    claim: Claim


class Claims(Reading, frozen=True, kw_only=True):
    """Claims, as read."""

    claims: tuple[Claim, ...]


class OneNode(Reading, frozen=True, kw_only=True):
    """:ivar node: Nova's ComputeNode fields, and the node's revision and epoch."""

    node: Mapping[str, Any]


class Audit(AuditSummary, frozen=True, kw_only=True):
    """The findings and the actions of an audit.

    :ivar sentence: the whole summary in one sentence.
    """

    sentence: str


class Mirrored(Value, frozen=True, kw_only=True):
    """:ivar revision: Placement has the node's state of this revision, or of a later one that
    publishes the same."""

    revision: int


class Orphan(Value, frozen=True, kw_only=True):
    """A domain that has no claim. :ivar active: it runs, or is paused."""

    domain_uuid: str
    name: str
    active: bool


class RestoredStore(Value, frozen=True, kw_only=True):
    """What a restored database may lack.

    :ivar restore: the restored database that awaits acceptance, or was accepted now; null: none.
    :ivar sentence: the restored database in one sentence.
    :ivar orphans: the domains without a claim, as of the last audit. Their resources are held.
    """

    restore: StoreRestore | None
    sentence: str
    orphans: tuple[Orphan, ...]


class Pong(Value, frozen=True, kw_only=True):
    """:ivar version: of the software. :ivar uptime: seconds since the agent started to serve.
    :ivar agent_uuid: made at each start of the agent: it identifies the process that answers.
    :ivar time: of the agent's clock, see `clock_text`.
    """

    version: str
    host: str
    node: str
    revision: int
    uptime: float
    node_uuid: str
    agent_uuid: str
    time: str


def clock_text(now: datetime) -> str:
    """Return a time in UTC, to the millisecond, as ``2026-01-31T00:00:00.000Z``."""
    text = now.astimezone(UTC).isoformat(timespec="milliseconds")
    return f"{text.removesuffix('+00:00')}Z"


def clock_skew(ping: Callable[[], Mapping[str, Any]]) -> float:
    """Return the seconds by which this machine's clock is ahead of the server's.

    The error is at most half of the time that the call takes.

    :param ping: calls the server and returns its reply.
    """
    before = datetime.now(UTC)
    reply = ping()
    after = datetime.now(UTC)
    middle = before + (after - before) / 2
    return (middle - datetime.fromisoformat(reply["time"])).total_seconds()
