"""What is held and no longer there."""

from msgspec.structs import replace

from rtagent.model.host import restore
from rtagent.model.numa_policy import NumaPolicy
from rtagent.model.policy import Policy
from rtagent.views import ABSENT, absent, drifts
from tests.builders import host, uid
from tests.numa_hosts import NO_SMT
from tests.unit.model.placed import pinned_claim

CLAIMS = (pinned_claim(4, 6, kept=(5,), owner=uid(1)), pinned_claim(2, owner=uid(2)))


def seen(dedicated: set[int], there=NO_SMT):
    policy = Policy(numa=NumaPolicy(cpu_dedicated_set=frozenset(dedicated)))
    return restore(replace(host(there), policy=policy), CLAIMS, (), 1)


def told(state):
    return [(one.owner_id, one.claim_uuid, one.resource, one.problem) for one in absent(state)]


def test_nothing_is_absent_while_all_is_offered():
    assert told(seen({2, 4, 6})) == []


def test_a_cpu_that_left_the_set_is_told_with_its_holder():
    first, second = (claim.uuid for claim in CLAIMS)
    assert told(seen({4})) == [
        (uid(1), first, "host CPU 6", ABSENT),
        (uid(2), second, "host CPU 2", ABSENT),
    ]


def test_a_cpu_that_is_offline_is_told():
    without = replace(NO_SMT, cpus=NO_SMT.cpus - {6})
    assert [resource for _, _, resource, _ in told(seen({2, 4, 6}, without))] == ["host CPU 6"]


def test_it_is_no_drift_and_reads_as_a_sentence():
    assert drifts(seen({2, 4})) == ()
    (one,) = absent(seen({2, 4}))
    assert str(one) == f"instance {uid(1)}: host CPU 6 is held, and gone, offline or not offered"


def test_nothing_is_known_of_a_host_never_seen():
    assert told(seen({4}, there=None)) == []
