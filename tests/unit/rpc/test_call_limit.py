"""How many calls of a slow method are served at once."""

import contextlib
import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from rtagent.errors import TooManyRequests
from rtagent.rpc.method import SLOW_CALLS
from rtagent.rpc.methods import METHODS
from rtagent.rpc.serving import THREADS, CallLimit
from rtagent.service.power import SETTLING
from tests.support.rpc import Agent, build, claim_change

PATIENCE = 60.0


def test_calls_up_to_the_limit_are_admitted_and_the_next_one_is_refused():
    limit = CallLimit("sync_placement", 2)
    with contextlib.ExitStack() as calls:
        calls.enter_context(limit.call())
        calls.enter_context(limit.call())
        with pytest.raises(TooManyRequests) as refused, limit.call():
            pytest.fail("a third call was admitted")
    assert refused.value.kwargs["method"] == "sync_placement"
    assert refused.value.kwargs["limit"] == 2
    assert refused.value.retriable and refused.value.expected
    with limit.call():
        pass  # the calls have ended


def test_calls_that_may_wait_leave_a_quarter_of_the_threads():
    slow = [method for method in METHODS.values() if method.slow]
    assert sum(method.at_once for method in slow) + SETTLING <= THREADS * 3 / 4


class Held:
    """An agent whose audits wait until `go` is set."""

    def __init__(self) -> None:
        self.agent, self.go = Agent(), threading.Event()
        self.agent.hypervisor.between = self._between

    def _between(self, step: str) -> None:
        if step == "devices":
            assert self.go.wait(PATIENCE)


def test_calls_over_the_limit_are_refused_while_others_are_served():
    held = Held()
    with ThreadPoolExecutor(4 * SLOW_CALLS) as threads:
        audit = "update_available_resource"
        calls = [threads.submit(held.agent.invoke, audit) for _ in range(4 * SLOW_CALLS)]
        refused = ended(calls, 3 * SLOW_CALLS)

        claim = held.agent.invoke("instance_claim", **build())
        held.agent.invoke("activate_claim", **claim_change(claim))
        held.agent.invoke("sync_placement")  # another method has a limit of its own
        held.agent.invoke("release_claim", **claim_change(claim))
        assert held.agent.invoke("ping")["node"]
        assert len(ended(calls, 0)) == len(refused)  # the others wait still
        held.go.set()
    assert all(isinstance(call.exception(), TooManyRequests) for call in refused)
    assert [call.exception() for call in set(calls) - set(refused)] == [None] * SLOW_CALLS
    assert held.agent.sample("rpc_total", outcome="TooManyRequests") == 3 * SLOW_CALLS


def ended(calls: list[Future[dict]], number: int) -> list[Future[dict]]:
    """Wait until so many calls have ended, and return those that have."""
    while sum(call.done() for call in calls) < number:
        threading.Event().wait(0.001)
    return [call for call in calls if call.done()]
