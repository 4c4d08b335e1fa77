"""Authentication: who makes a call, as its signature proves. Replays: refuses a signed call that
comes again.
"""

import hashlib
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from heapq import heappop, heappush
from typing import Any

import msgspec
from oslo_context.context import RequestContext

from rtagent.conf.rpc import Rpc
from rtagent.errors import ConfigError
from rtagent.ports import Clock, Reporter
from rtagent.rpc.context import Proof
from rtagent.rpc.errors import SignatureInvalid
from rtagent.rpc.method import Method
from rtagent.rpc.roles import ANY
from rtagent.rpc.trust.access import Caller, unsigned_caller
from rtagent.rpc.trust.keys import is_name, read_ring
from rtagent.rpc.trust.token import CallClaims, arguments_digest, key_name, proved

#: Times that are no more than this apart form one span, in milliseconds.
GAP = 300_000
#: The number of spans that are kept. If there are more, the two oldest ones become one.
MOST = 100


class Spans:
    """Contains every time that was added, and as few others as `MOST` spans allow.

    Times are milliseconds. Not thread-safe.
    """

    def __init__(self) -> None:
        self._spans: list[tuple[int, int]] = []  # first and last time, in order, and apart

    def __contains__(self, time: int) -> bool:
        return any(first <= time <= last for first, last in reversed(self._spans))

    def __len__(self) -> int:
        return len(self._spans)

    def add(self, time: int) -> None:
        """Add a time. Fast if it extends the newest span."""
        if self._spans and self._spans[-1][0] <= time <= self._spans[-1][1] + GAP:
            first, last = self._spans[-1]
            self._spans[-1] = first, max(last, time)
            return
        apart, first, last = [], time, time
        for span in self._spans:
            if span[0] - GAP <= time <= span[1] + GAP:
                first, last = min(first, span[0]), max(last, span[1])
            else:
                apart.append(span)
        self._spans = sorted([*apart, (first, last)])
        if len(self._spans) > MOST:
            oldest, second, *others = self._spans
            self._spans = [(oldest[0], second[1]), *others]


#: The number of calls that are remembered: some 30 MB at most.
MAX_CALLS = 100_000

SERVED = "has served this call already: sign each attempt anew"
FORGOTTEN = (
    "has forgotten the calls of this key that were signed at about the same time as this one, which"
    " may be a replay: sign it anew, or restart the server if its clock was set back"
)
EXPIRED = "has verified it after [rpc] signature_window had passed: sign it anew"


def served_once(methods: Iterable[Method]) -> frozenset[str]:
    """Return the names of the methods of which no signed call is served twice.

    A cast discloses nothing, because it has no reply, and reports are numbered. What every caller
    may call has no effect, and needs no signature.
    """
    return frozenset(each.name for each in methods if not each.cast and each.role != ANY)


class _Calls:
    """The calls of one key.

    :ivar known: their digests. :ivar ordered: a heap of the times and digests.
    :ivar forgotten: when the forgotten ones were signed, in milliseconds.
    """

    __slots__ = ("forgotten", "known", "ordered")

    def __init__(self) -> None:
        self.known, self.ordered = set[bytes](), list[tuple[int, bytes]]()
        self.forgotten = Spans()

    def forget_oldest(self) -> None:
        """Forget the call that was signed first."""
        issued_at, digest = heappop(self.ordered)
        self.known.discard(digest)
        self.forgotten.add(issued_at)

    def forget_until(self, time: float) -> int:
        """Forget the calls that were signed before this time. Return their number."""
        before = len(self.ordered)
        while self.ordered and self.ordered[0][0] < time:
            self.forget_oldest()
        return before - len(self.ordered)


class Replays:
    """Thread-safe. Remembers the calls of some methods for as long as their signatures are valid.

    Clients sign each attempt anew, so a signature that comes again was copied. If there are too
    many calls, those of the key with the most calls are forgotten first. So a flood with one key
    never lets a replay with another key pass.

    A key's calls that were signed when forgotten ones were are refused. So none becomes valid again
    because the server's clock is set back, or because signatures are valid for longer.
    """

    def __init__(self, methods: Collection[str], most: int = MAX_CALLS) -> None:
        """:param methods: the names of those whose calls are remembered.
        :param most: the number of calls that are remembered.
        """
        self._methods, self._most = methods, most
        self._lock = threading.Lock()
        self._keys: dict[str, _Calls] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def why_refused(
        self, key: str, said: CallClaims, window: float, now: Callable[[], float]
    ) -> str:
        """Return why a call is refused; "": it was not seen before, and is remembered.

        :param key: by which it is proved. :param said: by its token. :param window: the seconds for
            which that is valid. :param now: returns the time, in seconds since 1970.
        """
        if said.method not in self._methods:
            return ""
        digest, issued_at = hashlib.sha256(msgspec.json.encode(said)).digest(), said.issued_at
        with self._lock:
            # With the lock: no other thread has forgotten calls as of a later time.
            expired = (now() - window) * 1000
            calls = self._keys.setdefault(key, _Calls())
            self._count -= calls.forget_until(expired)
            if issued_at < expired:  # it was not, before its signature was verified
                return EXPIRED
            if digest in calls.known:
                return SERVED
            if issued_at in calls.forgotten:
                return FORGOTTEN
            if self._count >= self._most:
                self._make_place(expired)
            calls.known.add(digest)
            heappush(calls.ordered, (issued_at, digest))
            self._count += 1
            return ""

    def _make_place(self, expired: float) -> None:
        """Forget what is no longer valid, or the oldest call of the key with the most calls."""
        for calls in self._keys.values():
            self._count -= calls.forget_until(expired)
        if self._count >= self._most:
            max(self._keys.values(), key=lambda calls: len(calls.known)).forget_oldest()
            self._count -= 1


#: The method that needs no signature: by its reply a caller learns the server's time, and whether
#: the message broker can be used.
PING = "ping"


class Authentication:
    """An `Authenticate` of one server. Thread-safe."""

    def __init__(
        self,
        topic: str,
        host: str,
        options: Rpc,
        clock: Clock,
        reporter: Reporter,
        methods: Collection[Method],
    ) -> None:
        """:param methods: of the server.
        :raises ConfigError: the keys file is wrong.
        """
        self._topic, self._host, self._options = topic, host, options
        self._clock, self._reporter = clock, reporter.named(__name__)
        self._ring = read_ring(options.keys_file)
        self._for_one_server = frozenset(each.name for each in methods if each.for_one_server)
        self._replays = Replays(served_once(methods))

    def reload(self, options: Rpc) -> None:
        """Put options in force, and read the keys file again. While it is wrong, the keys that are
        known stay in force.
        """
        self._options = options
        try:
            self._ring = read_ring(options.keys_file)
        except ConfigError as error:
            self._reporter.log("error", f"the keys that are known stay in force: {error.message}")

    def has_key_of(self, host: str) -> bool:
        """Return whether a known key is of the agent of this host."""
        return self._ring.has_key_of(host)

    def __call__(self, context: RequestContext, method: str, document: Mapping[str, Any]) -> Caller:
        """Return the caller. :raises SignatureInvalid:"""
        proof: Proof = getattr(context, "proof", Proof())
        options = self._options
        if proof.signature:
            return self._proved(proof, method, document, options.signature_window)
        if options.require_signature and method != PING:
            reason = (
                f"it has none, and {self._host} requires one: set [rpc] signing_key of the caller"
            )
            raise _invalid(method, reason)
        return unsigned_caller(context, options.unsigned_roles)

    def _proved(
        self, proof: Proof, method: str, document: Mapping[str, Any], window: float
    ) -> Caller:
        try:
            digest, name = arguments_digest(document), key_name(proof.signature)
        except ValueError:
            raise _invalid(method, "it, or an argument, is malformed") from None
        if not is_name(name) or (found := self._ring.get(name)) is None:
            shown = name if is_name(name) else "that it names"
            reason = f"{self._host} does not know the key {shown}: add it to [rpc] keys_file there"
            raise _invalid(method, reason, name)
        entry, public = found
        # A refusal counts against nobody: whoever cannot prove a name could lock out its owner. It
        # costs no more than any call that is refused.
        try:
            said = proved(proof.signature, public, CallClaims)
            for claim, value in (("method", method), ("digest", digest), ("nonce", proof.nonce)):
                if getattr(said, claim) != value:
                    raise ValueError(f"its {claim} differs")
        except ValueError as error:
            reason = f"it is not that of the key {name} for this call: {error}"
            raise _invalid(method, reason, name) from None
        self._check_server(said, name)
        self._check_time(said, name, window)
        if why := entry.why_unusable(self._clock.now()):
            raise _invalid(method, f"{why}: make a new one with rtagent key generate", name)
        if why := self._replays.why_refused(name, said, window, self._now):
            raise _invalid(method, f"{self._host} {why}", name)
        return Caller(name=name, roles=frozenset(entry.roles), proved=True, host=entry.host)

    def _now(self) -> float:
        return self._clock.now().timestamp()

    def _check_server(self, said: CallClaims, key: str) -> None:
        topic, method = self._topic, said.method
        if said.aud == topic and method in self._for_one_server:
            reason = f"it is for any server, which is not enough for {method}: sign it for"
            raise _invalid(method, f"{reason} {self._host}", key)
        if said.aud not in (topic, f"{topic}.{self._host}"):
            reason = f"it is for {said.aud}, and this is {topic}.{self._host}"
            raise _invalid(method, reason, key)

    def _check_time(self, said: CallClaims, key: str, window: float) -> None:
        """Refuse a signature that may be a replay."""
        skew = said.iat - self._now()
        if abs(skew) <= window:
            return
        when = "behind" if skew < 0 else "ahead of"
        reason = (
            f"it was made {abs(skew):.3f} s {when} the clock of {self._host}, and [rpc]"
            f" signature_window is {window:g} s: synchronise both clocks, or it is a replay"
        )
        raise _invalid(said.method, reason, key, skew)


def _invalid(
    method: str, reason: str, key: str = "", skew: float | None = None
) -> SignatureInvalid:
    shown = key if is_name(key) else ""
    return SignatureInvalid(method=method, key=shown, reason=reason, skew=skew)
