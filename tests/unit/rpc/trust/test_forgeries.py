"""Floods of wrong signatures."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from rtagent.errors import TooManyRequests
from rtagent.ports import NullReporter
from rtagent.rpc.context import CallContext
from rtagent.rpc.errors import SignatureInvalid
from rtagent.rpc.tables import TABLES
from rtagent.rpc.trust.authentication import Authentication
from rtagent.rpc.trust.forgeries import LIMIT, MAX_SENDERS, PERIOD, Forgeries
from rtagent.rpc.trust.private_key import PrivateKey
from tests.support.hosts import ManualClock
from tests.support.trust import KeyFiles, signed_context

METHOD, CAST = "release_claim", "report_host_state"
DOCUMENT = {"operation_id": "0b5c6cd7-a1a5-4f0e-9c2a-111111111111"}


class Server:
    """The authentication of host-1. :ivar key: of a caller. :ivar forger: has no key."""

    def __init__(self, directory: Path) -> None:
        files = KeyFiles(directory)
        self.key, self.other = files.add("nova", "conductor"), files.add("ops", "operator")
        self.clock, self.forger = ManualClock(start=datetime.now(UTC)), PrivateKey.generate("nova")
        methods, options = TABLES["rtagent"].methods.values(), files.settings()
        self._authentication = Authentication(
            "rtagent", "host-1", lambda: options, self.clock, NullReporter(), methods
        )

    def call(self, key: PrivateKey, queue: str, method: str = METHOD) -> CallContext:
        """Make a call. Return its context."""
        context = signed_context(key, self.clock.now(), DOCUMENT, method=method)
        context.reply_queue = queue
        self.repeat(context, queue, method)
        return context

    def repeat(self, context: CallContext, queue: str, method: str = METHOD) -> None:
        """Send the same call again."""
        context.reply_queue = queue
        assert self._authentication(context, method, DOCUMENT).proved

    def flood(self, queue: str, method: str = METHOD) -> None:
        """Make as many forged calls as are verified."""
        for _ in range(LIMIT):
            with pytest.raises(SignatureInvalid, match="not that of the key nova"):
                self.call(self.forger, queue, method)


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


def test_forged_calls_are_refused_early_and_others_do_not_notice(server: Server):
    server.flood("reply_forger")
    for key in (server.forger, server.key):
        with pytest.raises(TooManyRequests, match="of the key nova with this reply queue") as early:
            server.call(key, "reply_forger")
        assert early.value.kwargs["reason"] == "forged"
    server.call(server.key, "reply_nova")
    server.call(server.other, "reply_forger")
    server.clock.advance(PERIOD)
    server.flood("reply_forger")
    with pytest.raises(TooManyRequests):
        server.call(server.forger, "reply_forger")


def test_replays_count_like_forged_calls(server: Server):
    call = server.call(server.key, "reply_nova")
    for _ in range(LIMIT):
        with pytest.raises(SignatureInvalid, match="has served this call already"):
            server.repeat(call, "reply_replayer")
    with pytest.raises(TooManyRequests):
        server.repeat(call, "reply_replayer")
    server.call(server.key, "reply_nova")


def test_forged_casts_do_not_silence_the_caller_whose_key_they_name(server: Server):
    server.flood("", CAST)
    server.call(server.key, "", CAST)
    server.flood("")  # no client sends a call without a reply queue
    with pytest.raises(TooManyRequests):
        server.call(server.forger, "")
    server.call(server.key, "", CAST)


def test_the_number_of_remembered_senders_is_bounded():
    known = Forgeries()
    for number in range(2 * MAX_SENDERS):
        known.count(("nova", f"reply_{number}"), float(number))
        assert len(known) <= MAX_SENDERS
