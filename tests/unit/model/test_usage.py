"""Usage of assignments and domains, added and subtracted."""

from rtagent.model.assignment import Assignment, CellAssignment
from rtagent.model.domain_usage import Occupancy
from rtagent.model.usage import NUMA_NOTHING, NumaUsage, assignment_usage

ONE = Assignment(
    cells=(
        CellAssignment(
            id=0,
            memory=1024,
            cpuset=frozenset({2, 3}),
            shared_pcpus=frozenset({0, 1}),
            cpu_pinning={0: 4, 1: 6},
            cpuset_reserved=frozenset({8}),
            cpuset_kept=frozenset({5, 7, 9}),
            pagesize=2048,
        ),
        CellAssignment(id=2, memory=512),
    )
)


def test_usage_of_an_assignment_counts_every_part():
    assert assignment_usage(ONE) == NumaUsage(
        pinned={4: 1, 6: 1, 8: 1},
        kept={5: 1, 7: 1, 9: 1},
        vcpus={0: 2},
        memory_mb={0: 1024, 2: 512},
        pages={(0, 2048): 512},
    )


def test_subtracting_all_parts_leaves_nothing():
    both = assignment_usage(ONE).plus(assignment_usage(ONE))
    assert both.memory_mb == {0: 2048, 2: 1024}
    assert both.minus(assignment_usage(ONE)) == assignment_usage(ONE)
    assert both.minus(assignment_usage(ONE)).minus(assignment_usage(ONE)) == NUMA_NOTHING


def test_cpu_with_two_users_stays_pinned_when_one_is_subtracted():
    twice = assignment_usage(ONE).plus(Occupancy(pcpus=frozenset({4})).usage)
    assert twice.minus(assignment_usage(ONE)).pinned == {4: 1}


def test_larger_takes_the_maximum_of_each_count():
    seen = Occupancy(
        pcpus=frozenset({4, 5}), memory_mb={0: 2048}, pages={0: {2048: 100, 1048576: 1}}
    )
    larger = assignment_usage(ONE).larger(seen.usage)
    assert larger.pinned == {4: 1, 5: 1, 6: 1, 8: 1}
    assert larger.memory_mb == {0: 2048, 2: 512}
    assert larger.pages == {(0, 2048): 512, (0, 1048576): 1}


def test_assignment_properties():
    assert ONE.pcpus == 3
    assert ONE.taken == {4, 5, 6, 7, 8, 9}
    assert ONE.cells[0].vcpus == {0, 1, 2, 3}
    assert (ONE.cells[0].pages, ONE.cells[1].pages) == (512, 0)
