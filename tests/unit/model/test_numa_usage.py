"""What assignments take."""

from rtagent.model.assignment import Assignment, CellAssignment
from rtagent.model.numa_usage import NUMA_NOTHING, NumaUsage, Occupancy, assigned, total

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


def test_all_of_it_counts():
    assert assigned(ONE) == NumaUsage(
        pinned={4: 1, 6: 1, 8: 1},
        kept={5: 1, 7: 1, 9: 1},
        vcpus={0: 2},
        memory_mb={0: 1024, 2: 512},
        pages={(0, 2048): 512},
    )


def test_what_is_taken_out_leaves_no_trace():
    both = assigned(ONE).plus(assigned(ONE))
    assert both.memory_mb == {0: 2048, 2: 1024}
    assert both.minus(assigned(ONE)) == assigned(ONE)
    assert both.minus(assigned(ONE)).minus(assigned(ONE)) == NUMA_NOTHING


def test_the_sum_is_that_of_the_parts():
    uses = [assigned(ONE), Occupancy(pcpus=frozenset({4, 11})).usage, NUMA_NOTHING]
    assert total(uses) == uses[0].plus(uses[1])
    assert total([]) == NUMA_NOTHING


def test_a_cpu_held_twice_stays_held_when_one_lets_go():
    twice = assigned(ONE).plus(Occupancy(pcpus=frozenset({4})).usage)
    assert twice.minus(assigned(ONE)).pinned == {4: 1}


def test_the_larger_of_claim_and_domain():
    seen = Occupancy(
        pcpus=frozenset({4, 5}), memory_mb={0: 2048}, pages={0: {2048: 100, 1048576: 1}}
    )
    larger = assigned(ONE).larger(seen.usage)
    assert larger.pinned == {4: 1, 5: 1, 6: 1, 8: 1}
    assert larger.memory_mb == {0: 2048, 2: 512}
    assert larger.pages == {(0, 2048): 512, (0, 1048576): 1}


def test_an_assignment_tells_what_it_holds():
    assert ONE.pcpus == 3
    assert ONE.taken == {4, 5, 6, 7, 8, 9}
    assert ONE.cells[0].vcpus == {0, 1, 2, 3}
    assert (ONE.cells[0].pages, ONE.cells[1].pages) == (512, 0)
