"""Events without a change: their payloads, and the bounds of what outsiders can put into them."""

from rtagent.model.event import AUDIT_END, CLAIM_REFUSE, SERVICE_UPDATE
from rtagent.model.event_payloads import AuditPayload, RefusalPayload, ServicePayload
from rtagent.ports import Service
from rtagent.service.events import (
    MAX_TEXT,
    REASONS,
    Announcer,
    of_audit,
    of_refusal,
    of_service,
)
from tests.support.agents import Agent
from tests.support.hosts import call


def test_an_audit_has_its_numbers_and_its_sentence():
    summary = Agent().audit("request")
    event = of_audit(summary)
    assert event.type == AUDIT_END and isinstance(event.payload, AuditPayload)
    assert (event.payload.audit_cause, event.payload.complete) == ("request", True)
    assert event.payload.summary == str(summary)


def test_a_refusal_has_a_bounded_number_of_reasons():
    reasons = [{"code": "insufficient", "message": str(number)} for number in range(REASONS + 5)]
    event = of_refusal(call(), reasons)
    assert event.type == CLAIM_REFUSE and isinstance(event.payload, RefusalPayload)
    assert event.payload.reasons == reasons[:REASONS]


def test_the_reason_of_a_disabled_service_is_printable_and_bounded():
    service = Service(
        host="h", binary="rtagent", disabled=True, disabled_reason="\x1b[31m" + "x" * 100_000
    )
    event = of_service(service)
    assert event.type == SERVICE_UPDATE and isinstance(event.payload, ServicePayload)
    reason = event.payload.disabled_reason
    assert event.payload.disabled and reason is not None and reason.isprintable()
    assert len(reason) < MAX_TEXT + 100


def test_a_periodic_audit_is_announced_only_if_it_says_something_new():
    agent, announced = Agent(), []
    Announcer(agent.tracker.bus, announced.append)
    for cause in ("start", "periodic", "periodic", "request", "periodic"):
        agent.audit(cause)
    assert [event.payload.audit_cause for event in announced] == ["start", "request"]

    agent.run()
    for _ in range(3):
        agent.audit("periodic")
    assert [event.payload.audit_cause for event in announced[2:]] == ["periodic"]
