"""Validation of the CPU sets."""

import pytest

from rtagent.errors import ConfigError
from rtagent.model.topology import Cell
from rtagent.numa.cpu_sets import check
from tests.support.numa_hosts import cell, host, topology

THERE = topology(
    cell(0, threads=1), Cell(id=1, cpus=frozenset({4}), memory_mb=0, offline=frozenset({5, 6}))
)


def checked(dedicated=None, shared=None, **more):
    return check(host(THERE, dedicated, shared).policy, THERE, **more)


@pytest.mark.parametrize(
    ("dedicated", "shared"), [(None, None), ("0-3", None), (None, "4"), ("0-2", "3-4")]
)
def test_valid_sets(dedicated, shared):
    assert checked(dedicated, shared) == set()


@pytest.mark.parametrize(
    ("dedicated", "shared", "message"),
    [
        ("0-2", "2-3", "[compute] cpu_dedicated_set = 0-2: CPUs 2 are in cpu_shared_set, too"),
        ("0,7-8", None, "[compute] cpu_dedicated_set = 0,7-8: this host has no CPUs 7-8"),
        (None, "4-5", "[compute] cpu_shared_set = 4-5: CPUs 5 are offline"),
        ("^0", None, "[compute] cpu_dedicated_set = : no CPU is left in it"),
    ],
)
def test_invalid_sets(dedicated, shared, message):
    with pytest.raises(ConfigError) as refused:
        checked(dedicated, shared)
    assert str(refused.value) == message


def test_claimed_cpus_that_vanished_are_returned():
    assert checked("0,5,9", claimed=frozenset({5, 9})) == {5, 9}


def test_claimed_cpus_do_not_excuse_others():
    with pytest.raises(ConfigError, match="CPUs 6 are offline"):
        checked("5-6", claimed=frozenset({5}))


@pytest.mark.parametrize("sets", [{"dedicated": "0"}, {"shared": "0"}])
def test_reserved_cpus_cannot_be_combined_with_sets(sets):
    with pytest.raises(ConfigError, match="reserved_host_cpus = 1: cannot be combined"):
        checked(**sets, reserved_host_cpus=1)
    assert checked(reserved_host_cpus=1) == set()
