"""Authentication: who makes a call, as its signature proves."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from oslo_context.context import RequestContext

from rtagent.conf.rpc import Rpc
from rtagent.errors import ConfigError
from rtagent.ports import Clock, Reporter
from rtagent.rpc.context import Proof
from rtagent.rpc.errors import SignatureInvalid
from rtagent.rpc.method import Method
from rtagent.rpc.trust.caller import Caller, unsigned_caller
from rtagent.rpc.trust.keys import is_name, read_ring
from rtagent.rpc.trust.replays import Replays, served_once
from rtagent.rpc.trust.signature import (
    CallText,
    Signature,
    arguments_digest,
    is_genuine,
    milliseconds,
    parse_signature,
)

#: The method that needs no signature: by its reply a caller learns the server's time, and whether
#: the message broker can be used.
PING = "ping"


class Authentication:
    """An `Authenticate` of one server. Thread-safe."""

    def __init__(
        self,
        topic: str,
        host: str,
        options: Callable[[], Rpc],
        clock: Clock,
        reporter: Reporter,
        methods: Collection[Method],
    ) -> None:
        """:param options: returns those in force.
        :param methods: of the server.
        :raises ConfigError: the keys file is wrong.
        """
        self._topic, self._host, self._options = topic, host, options
        self._clock, self._reporter = clock, reporter.named(__name__)
        self._ring = read_ring(options().keys_file)
        self._for_one_server = frozenset(each.name for each in methods if each.for_one_server)
        self._replays = Replays(served_once(methods))

    def reload(self) -> None:
        """Read the keys file again. While it is wrong, the keys that are known stay in force."""
        try:
            self._ring = read_ring(self._options().keys_file)
        except ConfigError as error:
            self._reporter.log("error", f"the keys that are known stay in force: {error.message}")

    def has_key_of(self, host: str) -> bool:
        """Return whether a known key is of the agent of this host."""
        return self._ring.has_key_of(host)

    def __call__(self, context: RequestContext, method: str, document: Mapping[str, Any]) -> Caller:
        """Return the caller. :raises SignatureInvalid:"""
        proof: Proof = getattr(context, "proof", Proof())
        options = self._options()
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
            signature = parse_signature(proof.signature)
            digest = arguments_digest(document)
        except ValueError:
            raise _invalid(method, "it, or an argument, is malformed") from None
        key = signature.key
        if not is_name(key) or (found := self._ring.get(key)) is None:
            shown = key if is_name(key) else "that it names"
            reason = f"{self._host} does not know the key {shown}: add it to [rpc] keys_file there"
            raise _invalid(method, reason, key)
        entry, public = found
        # These checks cost little, so they come before the verification.
        self._check_server(method, signature)
        self._check_time(method, signature, window)
        if why := entry.why_unusable(self._clock.now()):
            raise _invalid(method, f"{why}: make a new one with rtagent key generate", key)
        text = CallText(
            topic=self._topic,
            method=method,
            server=signature.server,
            operation_id=operation_id(document),
            digest=digest,
            nonce=proof.nonce,
            key=key,
            issued_at=signature.issued_at,
            attempt=signature.attempt,
        )
        # A refusal counts against nobody: whoever cannot prove a name could lock out its owner. It
        # costs no more than any call that is refused.
        if not is_genuine(public, text, signature.value):
            raise _invalid(method, f"it is not that of the key {key} for this call", key)
        if why := self._replays.why_refused(text, window, self._now):
            raise _invalid(method, f"{self._host} {why}", key)
        return Caller(name=key, roles=frozenset(entry.roles), proved=True, host=entry.host)

    def _now(self) -> float:
        return self._clock.now().timestamp()

    def _check_server(self, method: str, signature: Signature) -> None:
        if not signature.server and method in self._for_one_server:
            reason = f"it is for any server, which is not enough for {method}: sign it for"
            raise _invalid(method, f"{reason} {self._host}", signature.key)
        if signature.server not in ("", self._host):
            reason = f"it is for {signature.server}, and this is {self._host}"
            raise _invalid(method, reason, signature.key)

    def _check_time(self, method: str, signature: Signature, window: float) -> None:
        """Refuse a signature that may be a replay."""
        skew = (signature.issued_at - milliseconds(self._clock.now())) / 1000
        if abs(skew) <= window:
            return
        when = "behind" if skew < 0 else "ahead of"
        reason = (
            f"it was made {abs(skew):.3f} s {when} the clock of {self._host}, and [rpc]"
            f" signature_window is {window:g} s: synchronise both clocks, or it is a replay"
        )
        raise _invalid(method, reason, signature.key, skew)


def operation_id(document: Mapping[str, Any]) -> str:
    """Return the operation id of arguments; "": they have none."""
    found = document.get("operation_id")
    return found if isinstance(found, str) else ""


def _invalid(
    method: str, reason: str, key: str = "", skew: float | None = None
) -> SignatureInvalid:
    shown = key if is_name(key) else ""
    return SignatureInvalid(method=method, key=shown, reason=reason, skew=skew)
