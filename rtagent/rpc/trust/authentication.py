"""Authentication: who makes a call, as its signature proves."""

from collections.abc import Collection, Mapping
from typing import Any

from oslo_context.context import RequestContext

from rtagent.conf.rpc import Rpc
from rtagent.errors import ConfigError
from rtagent.ports import Clock, Reporter
from rtagent.rpc.context import Proof
from rtagent.rpc.errors import SignatureInvalid
from rtagent.rpc.method import Method
from rtagent.rpc.trust.access import Caller, unsigned_caller
from rtagent.rpc.trust.keys import is_name, read_ring
from rtagent.rpc.trust.replays import Replays, served_once
from rtagent.rpc.trust.token import CallClaims, arguments_digest, key_name, proved

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
