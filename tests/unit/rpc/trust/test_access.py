"""Who calls, how often a caller may, and what a server records of refused calls."""

import logging
from typing import Any

import pytest
from oslo_context.context import RequestContext

from rtagent.conf.rpc import UNSIGNED as UNSIGNED_ROLES
from rtagent.conf.rpc import Rpc
from rtagent.errors import RtAgentError, TooManyRequests
from rtagent.ports import ACCESS_LOG
from rtagent.rpc import AGENT, SCHEDULER
from rtagent.rpc.context import ContextSerializer
from rtagent.rpc.errors import NotAuthorized, SignatureInvalid
from rtagent.rpc.incoming import Incoming
from rtagent.rpc.methods import TABLES
from rtagent.rpc.trust.access import MAX_CALLERS, Caller, CallerBounds, identity, unsigned_caller
from tests.support.hosts import ManualClock, uid
from tests.support.rpc import Agent
from tests.support.scheduler_rpc import SchedulerRpc

FORGED = "x\nrefused nothing of \u202enobody"
READ = TABLES[AGENT].methods["get_node"]
PING = TABLES[AGENT].methods["ping"]
REPORT = TABLES[SCHEDULER].methods["update_host_state"]
UNSIGNED = Caller(name="alice", roles=frozenset({"reader"}))
SIGNED = Caller(name="alice", roles=frozenset({"reader"}), proved=True)


class Message:
    """A message of a driver."""

    client_timeout = msg_id = None
    message: Any = None

    def __init__(self, reply_q: str | None, **context: Any) -> None:
        self.reply_q, self.ctxt = reply_q, context


def received(queue: str | None, **fields: Any) -> RequestContext:
    """Return the context of a call, as a server receives it."""
    incoming = Incoming(Message(queue, **fields), None, lambda: None)
    return ContextSerializer().deserialize_context(incoming.ctxt)


def test_every_refusal_is_a_line_and_is_counted(caplog):
    agent = Agent()
    caplog.set_level(logging.INFO, ACCESS_LOG)
    context = received("reply_1", user=FORGED, roles=["reader"], request_id=FORGED)
    for _ in range(3):
        with pytest.raises(NotAuthorized):
            agent.invoke_as(context, "release_claim", claim_uuid=uid(), operation_id=uid())
    lines = [each.getMessage() for each in caplog.records if each.name == ACCESS_LOG]
    assert len(lines) == 3
    for line in lines:
        assert line.isprintable()
        words = "refused release_claim of xrefused nothing of nobody, not proved, reply"
        assert line.startswith(words)
        assert "reply queue reply_1, request" in line
        assert "release_claim needs the role conductor" in line
    assert agent.sample("calls_refused_total", reason="role") == 3


@pytest.mark.parametrize(
    "method, document",
    [
        ("create_aggregate", {"uuid": uid(1), "name": FORGED}),
        ("force_down_service", {"host": "cn1", "forced_down": True}),
    ],
    ids=["aggregate", "service"],
)
def test_every_change_of_an_operator_names_the_caller_that_was_proved(caplog, method, document):
    caplog.set_level(logging.INFO, ACCESS_LOG)
    caller = Caller(name="ops", roles=frozenset({"operator"}), proved=True)
    scheduler = SchedulerRpc(lambda *_: caller)
    scheduler.invoke(method, **document)
    scheduler.invoke("get_aggregates")
    (line,) = [each.getMessage() for each in caplog.records if each.name == ACCESS_LOG]
    assert line.startswith(f"served {method} of key:ops, proved, request req-")
    assert line.isprintable()
    for name in document:
        assert f'"{name}": ' in line


def test_a_change_of_an_operator_that_fails_is_recorded_with_the_reason(caplog):
    caplog.set_level(logging.INFO, ACCESS_LOG)
    with pytest.raises(RtAgentError):
        SchedulerRpc().invoke("delete_aggregate", aggregate="none")
    (line,) = [each.getMessage() for each in caplog.records if each.name == ACCESS_LOG]
    assert line.startswith("failed delete_aggregate of (no name), not proved, request req-")
    assert '{"aggregate": "none"}: there is no aggregate none' in line


def test_a_call_that_has_ended_or_was_refused_makes_room_for_the_next():
    agent = Agent(bounds=Rpc(max_calls_per_caller=1))
    context = received("reply_1", roles=["reader"])
    for _ in range(3):
        agent.invoke_as(context, "get_node")
        with pytest.raises(NotAuthorized):
            agent.invoke_as(context, "release_claim", claim_uuid=uid(), operation_id=uid())


def test_a_caller_whose_key_is_not_for_the_arguments_is_refused_and_that_is_recorded():
    def refuse(caller: Caller, method: str, arguments: Any) -> None:
        raise SignatureInvalid(method=method, key="cn1", reason="it is of another host", skew=None)

    scheduler = SchedulerRpc(check_caller=refuse)
    with pytest.raises(SignatureInvalid, match="of another host"):
        scheduler.invoke("update_aggregates")
    assert scheduler.aggregates.rereads == 0
    assert scheduler.sample("calls_refused_total", reason="role") == 1


def test_unsigned_callers_count_by_their_reply_queue_and_keys_by_their_name():
    context = received("reply_1", user="alice", reply_queue="reply_2")
    assert identity(UNSIGNED, READ, context) == "queue:reply_1"
    assert identity(SIGNED, READ, context) == "key:alice"
    assert identity(SIGNED, REPORT, received(None)) == "key:alice"


def test_calls_without_a_reply_queue_count_together_and_casts_and_pings_do_not():
    context = received(None, user="alice", reply_queue="reply_2")
    assert identity(UNSIGNED, READ, context) == "queue:"
    assert identity(UNSIGNED, REPORT, context) is None
    assert identity(UNSIGNED, PING, received("reply_1")) is None


@pytest.mark.parametrize(
    "said, roles",
    [
        (["reader", "visitor"], {"reader"}),
        (["reader", "member"], set(UNSIGNED_ROLES)),
        (["manager", "member", "reader", "scheduler"], {"scheduler"}),
        (["admin", "manager", "member", "reader"], {"operator"}),
        (["member"], set(UNSIGNED_ROLES)),
        ([], set(UNSIGNED_ROLES)),
    ],
    ids=["one of ours", "user of OpenStack", "two of ours", "admin", "none of ours", "none"],
)
def test_unsigned_caller_has_the_roles_that_its_context_says(said: list[str], roles: set[str]):
    context = RequestContext(user_id="u", roles=said, overwrite=False)
    caller = unsigned_caller(context, UNSIGNED_ROLES)
    assert caller == Caller(name="u", roles=frozenset(roles))


def test_only_a_proved_caller_is_recorded_as_a_key():
    said = RequestContext(user_id="key:conductor", overwrite=False)
    assert unsigned_caller(said, UNSIGNED_ROLES).actor == "user:key:conductor"
    assert Caller(name="conductor", roles=frozenset(), proved=True).actor == "key:conductor"


class Server:
    """Bounds, and the options in force."""

    def __init__(self, **options: float) -> None:
        self.clock, self.options = ManualClock(), Rpc(**options)
        self.bounds = CallerBounds(self.options, self.clock)

    def admitted(self, caller: str, calls: int) -> int:
        """How many of some calls are admitted, which do not end."""
        number = 0
        for _ in range(calls):
            try:
                self.bounds.enter(caller, "get_node")
            except TooManyRequests as error:
                assert "[rpc] max_call" in error.message
                limits = (self.options.max_calls_per_caller, self.options.max_call_rate)
                assert error.kwargs["limit"] in limits
            else:
                number += 1
        return number


def test_a_caller_has_a_number_of_calls_per_second():
    server = Server(max_call_rate=10.0, max_calls_per_caller=1000)
    assert server.admitted("a", 50) == 10
    assert server.admitted("b", 50) == 10
    server.clock.advance(0.5)
    assert server.admitted("a", 50) == 5
    server.clock.advance(3600)
    assert server.admitted("a", 50) == 10


def test_invented_callers_do_not_fill_the_memory_and_none_in_flight_is_forgotten():
    server = Server(max_calls_per_caller=2)
    assert server.admitted("a", 1) == 1
    for number in range(2 * MAX_CALLERS):
        assert server.admitted(f"invented-{number}", 1) == 1
        server.bounds.leave(f"invented-{number}")
    assert len(server.bounds) == MAX_CALLERS
    assert server.admitted("a", 5) == 1
