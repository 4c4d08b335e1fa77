"""The operator's CPU sets against the host."""

import pytest

from rtagent.errors import ConfigError
from rtagent.model.topology import Cell
from rtagent.numa.cpu_sets import check
from tests.numa_hosts import cell, host, topology

THERE = topology(
    cell(0, threads=1), Cell(id=1, cpus=frozenset({4}), memory_mb=0, offline=frozenset({5, 6}))
)


def checked(dedicated=None, shared=None, **more):
    return check(host(THERE, dedicated, shared).policy, THERE, **more)


@pytest.mark.parametrize(
    ("dedicated", "shared"), [(None, None), ("0-3", None), (None, "4"), ("0-2", "3-4")]
)
def test_sets_that_can_be(dedicated, shared):
    assert checked(dedicated, shared) == set()


@pytest.mark.parametrize(
    ("dedicated", "shared", "told"),
    [
        ("0-2", "2-3", "[compute] cpu_dedicated_set = 0-2: CPUs 2 are in cpu_shared_set, too"),
        ("0,7-8", None, "[compute] cpu_dedicated_set = 0,7-8: this host has no CPUs 7-8"),
        (None, "4-5", "[compute] cpu_shared_set = 4-5: CPUs 5 are offline"),
        ("^0", None, "[compute] cpu_dedicated_set = : no CPU is left in it"),
    ],
)
def test_sets_that_cannot_be(dedicated, shared, told):
    with pytest.raises(ConfigError) as refused:
        checked(dedicated, shared)
    assert str(refused.value) == told


def test_what_is_held_is_kept_and_told():
    assert checked("0,5,9", held=frozenset({5, 9})) == {5, 9}


def test_what_is_held_does_not_excuse_what_is_not():
    with pytest.raises(ConfigError, match="CPUs 6 are offline"):
        checked("5-6", held=frozenset({5}))


@pytest.mark.parametrize("sets", [{"dedicated": "0"}, {"shared": "0"}])
def test_reserved_cpus_and_sets_exclude_each_other(sets):
    with pytest.raises(ConfigError, match=r"\[DEFAULT\] reserved_host_cpus = 1: is not combined"):
        checked(**sets, reserved_host_cpus=1)
    assert checked(reserved_host_cpus=1) == set()
