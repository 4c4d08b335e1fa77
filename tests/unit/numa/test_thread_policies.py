"""Which host CPUs dedicated vCPUs take, by thread policy."""

import pytest

from rtagent.model.decision import ReasonCode
from tests.support.numa_hosts import (
    ONE_CELL,
    SMT4,
    assigned_to,
    fit_guest,
    host,
    pinned,
    pinned_usage,
    pins_of,
    reasons_of,
)


@pytest.mark.parametrize(
    ("there", "vcpus", "used", "cpus"),
    [
        (ONE_CELL, 1, "0", [2]),
        (ONE_CELL, 3, "0", [2, 3, 4]),
        (SMT4, 3, "0,4", [1, 2, 3]),
        (SMT4, 5, "0,4", [1, 2, 3, 5, 6]),
    ],
)
def test_require_takes_siblings_and_allows_one_single_thread(there, vcpus, used, cpus):
    where = host(there, "0-15", usage=pinned_usage(used))
    guest = pinned(vcpus, cpu_thread_policy="require")
    assert sorted(pins_of(fit_guest(guest, where))[0].values()) == cpus


@pytest.mark.parametrize("threads", ["prefer", "require"])
def test_isolated_emulator_needs_one_more_cpu(threads):
    policies = {"emulator_threads_policy": "isolate", "cpu_thread_policy": threads}
    (one,) = assigned_to(fit_guest(pinned(6, **policies), host(ONE_CELL, "0-7"))).cells
    assert one.cpuset_reserved == {6}
    answer = fit_guest(pinned(8, **policies), host(ONE_CELL, "0-8"))
    assert reasons_of(answer) == [(ReasonCode.EXCEEDS_CELL, "PCPU", "cell 0")]
    full = host(ONE_CELL, "0-7", usage=pinned_usage("0-1"))
    (reason,) = fit_guest(pinned(6, **policies), full).reasons
    assert (reason.requested, reason.available) == (7, 6)


def test_isolated_emulator_of_isolated_threads_has_a_core_of_its_own():
    policies = {"cpu_thread_policy": "isolate", "emulator_threads_policy": "isolate"}
    (one,) = assigned_to(fit_guest(pinned(3, **policies), host(ONE_CELL, "0-7"))).cells
    assert one.cpuset_reserved == {6}
    assert one.cpuset_kept == {1, 3, 5, 7}
    answer = fit_guest(pinned(4, **policies), host(ONE_CELL, "0-7"))
    assert reasons_of(answer) == [(ReasonCode.INSUFFICIENT, "PCPU", "cell 0")]
