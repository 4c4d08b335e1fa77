"""The scheduler's answer is the agent's: on a replica, made of reports as they arrive, `allocate`
decides as on the node's own state.
"""

import json
import random

from hypothesis import given
from msgspec.structs import replace

from rtagent import claims
from rtagent.allocation import requirements
from rtagent.allocation.allocate import allocate
from rtagent.allocation.shares import shares_of
from rtagent.errors import RtAgentError
from rtagent.lifecycle.moves import move_claim
from rtagent.model.claim import BUILD
from rtagent.model.decision import Granted
from rtagent.model.migration import MoveRequest
from rtagent.scheduler.replica import replica_for, replica_of
from rtagent.scheduler.report import description_of, digest_of, instances_of, report_of
from rtagent.scheduler.report_documents import (
    instances_from,
    instances_text,
    report_document,
    report_from,
)
from tests.property.test_numa_fit import hosts as numa_hosts
from tests.property.test_pci_fit import hosts as pci_hosts
from tests.support import random_nodes
from tests.support.hosts import NOON, call, uid

OPERATION = uid(5000)
#: Different histories of each host.
HISTORIES = 5


def arrived(state):
    """The replica and the instances of a node, as a scheduler gets them."""
    description = description_of(state)
    digest = digest_of(description)
    report = replace(report_of(state, digest), description=description)
    got = report_from(json.loads(json.dumps(report_document(report))))
    assert got == report
    assert digest_of(got.description) == digest
    instances = instances_from("m", instances_text(tuple(instances_of(state).values())))
    assert {info.uuid: info for info in instances} == instances_of(state)
    return replica_of(got, got.description), {info.uuid: info for info in instances}


def view(replica, instances, owner):
    """The replica on which a scheduler decides for an owner."""
    return replica_for(replica, instances[owner]) if owner in instances else replica


def decided(state, asked):
    """What `allocate` assigns, or the reasons, or the error of the request."""
    build = asked.build if isinstance(asked, MoveRequest) else asked
    kind = asked.kind if isinstance(asked, MoveRequest) else BUILD
    try:
        if isinstance(asked, MoveRequest):
            required = requirements.from_move(asked, state.policy)
        else:
            required = requirements.from_request(asked, state.policy)
        shares = shares_of(state, build, required, kind)
        return allocate(state, build.instance.uuid, required, shares)
    except RtAgentError as error:
        return type(error), error.kwargs


def claimed(state, asked):
    """The decision of the agent's own rule, or None if the call itself is wrong."""
    rule = move_claim if isinstance(asked, MoveRequest) else claims.instance_claim
    try:
        return rule(state, call(operation_id=OPERATION), NOON, asked)
    except RtAgentError:
        return None


def random_request(rng, state):
    """A request of a new owner, of an orphan, or of an instance that is here: often one that
    fits.
    """
    number = rng.choice([random_nodes.NEW_OWNER, random_nodes.NEW_OWNER, *random_nodes.OWNERS])
    moves = bool(state.claims_of(uid(number))) or random_nodes.one_in(rng, 4)
    for _ in range(rng.choice([1, random_nodes.TRIES])):
        asked = (
            random_nodes.random_move(rng, number)
            if moves
            else random_nodes.random_build(rng, number)
        )
        decision = claimed(state, asked)
        if isinstance(decision, Granted):
            break
    granted = decision.claims[0] if isinstance(decision, Granted) else None
    if isinstance(asked, MoveRequest):
        return replace(asked, build=random_nodes.with_allocations(rng, asked.build, granted))
    return random_nodes.with_allocations(rng, asked, granted)


def owner_of(asked):
    return (asked.build if isinstance(asked, MoveRequest) else asked).instance.uuid


@given(numa_hosts(), pci_hosts())
def test_agent_and_scheduler_decide_alike(there, devices):
    for history in range(HISTORIES):
        rng = random.Random(f"{history} {there} {devices}")
        check_requests(rng, random_nodes.random_node(rng, there, devices))


def check_requests(rng, state):
    """Compare two requests in a row: the first one is assumed until the next report."""
    replica, instances = arrived(state)
    first = random_request(rng, state)
    ours = view(replica, instances, owner_of(first))
    assert decided(ours, first) == decided(state, first)
    decision = claimed(state, first)
    if not isinstance(decision, Granted):
        return
    state, assumed = state.fold(decision.change), ours.fold(decision.change)
    assert assumed.usage == state.usage
    assert assumed.counters == state.counters
    # The instance may be taken out of the total after its new claim was assumed, too.
    late = view(replica.fold(decision.change), instances, owner_of(first))
    assert late.usage == state.usage
    second = random_request(rng, state)
    if owner_of(second) != owner_of(first):
        assumed = view(assumed, instances, owner_of(second))
    assert decided(assumed, second) == decided(state, second)
    replica, instances = arrived(state)
    assert decided(view(replica, instances, owner_of(second)), second) == decided(state, second)
