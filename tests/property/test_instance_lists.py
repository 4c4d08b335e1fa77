"""Messages about instances in any order, doubled and lost: the list becomes the agent's."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rtagent.model.domain_usage import DomainUsage
from rtagent.model.host_report import InstanceInfo
from rtagent.scheduler.instance_lists import MAX_BEYOND, HostInstances, InstanceList
from rtagent.scheduler.report import instances_digest
from tests.support.hosts import uid
from tests.support.reporting_agents import ReportingAgent

#: A change of the agent's list: the instance, and its new content; None: it is removed.
changes = st.lists(
    st.tuples(st.integers(1, 3), st.none() | st.integers(1, 9) | st.just("whole")), max_size=12
)


def info(number: int, content: int) -> InstanceInfo:
    usage = DomainUsage(domain_uuid=uid(number), name="vm", active=True, vcpus=content, memory_mb=1)
    return InstanceInfo(uuid=uid(number), here=bool(content % 2), domain_usage=usage)


def sent(made, epoch=1):
    """Return the messages of these changes as functions, and the list after them."""
    truth: dict[str, InstanceInfo] = {}
    messages = []

    def send(method, *arguments):
        number = len(messages) + 1
        messages.append(lambda known: getattr(known, method)(epoch, number, *arguments))

    def whole():
        send("sync", instances_digest(truth), tuple(truth.values()))

    whole()
    for number, content in made:
        if content == "whole":
            whole()
        elif content is None:
            truth.pop(uid(number), None)
            send("delete", uid(number))
        else:
            truth[uid(number)] = info(number, content)
            send("update", (truth[uid(number)],))
    return messages, dict(truth), whole


def received(order) -> InstanceList:
    """Return the list that these messages make."""
    known = InstanceList()
    for message in order:
        message(known)
    return known


def listed(known: InstanceList) -> dict[str, InstanceInfo]:
    return dict(HostInstances(known.entries))


@given(changes, st.randoms(use_true_random=False), st.booleans())
def test_order_and_repetition_make_no_difference(made, random, twice):
    messages, truth, _ = sent(made)
    order = messages * (1 + twice)
    random.shuffle(order)
    known = received(order)
    assert listed(known) == truth and known.confirmed
    assert known.digest == instances_digest(truth)


@given(changes, st.randoms(use_true_random=False), st.sets(st.integers(0, 12)))
def test_whole_list_repairs_what_was_lost(made, random, lost):
    messages, truth, whole = sent(made)
    order = [message for at, message in enumerate(messages) if at not in lost]
    whole()
    random.shuffle(order)
    late = order[len(order) // 2 :]
    known = received([*order, messages[-1], *late])
    assert listed(known) == truth and known.confirmed


@given(changes, changes, st.randoms(use_true_random=False))
def test_messages_of_an_earlier_epoch_change_nothing(before, after, random):
    old, _, _ = sent(before, epoch=1)
    new, truth, _ = sent(after, epoch=2)
    order = [*old, *new]
    random.shuffle(order)
    known = received(order)
    assert listed(known) == truth and known.confirmed


@given(changes, st.integers(0, 12))
def test_lost_message_is_noticed(made, lost):
    messages, truth, _ = sent(made)
    known = received([message for at, message in enumerate(messages) if at != lost % len(messages)])
    report = replace(
        ReportingAgent().host_report(),
        instances_revision=len(messages),
        instances_digest=instances_digest(truth),
    )
    whole_after = any(content == "whole" for _, content in made[lost % len(messages) :])
    assert known.lacks(report) or whole_after


def test_numbers_beyond_a_missing_one_are_bounded():
    known = InstanceList()
    for number in range(2, MAX_BEYOND * 2):
        assert known.delete(1, number, uid())
    assert not known.confirmed
    known.sync(1, MAX_BEYOND * 2, instances_digest(()), ())
    assert known.confirmed
