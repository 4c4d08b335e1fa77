"""The hardware of a simulated host."""

import pytest

from rtagent.virt.simulate import Machine, SimulationError


def test_cpus_are_numbered_as_linux_does():
    machine = Machine(sockets=2, cores=2, threads=2, memory_mb=2)
    assert [(c.id, c.cell, c.socket, c.core, c.siblings) for c in machine.cpus] == [
        (0, 0, 0, 0, (0, 4)),
        (1, 0, 0, 1, (1, 5)),
        (2, 1, 1, 0, (2, 6)),
        (3, 1, 1, 1, (3, 7)),
        (4, 0, 0, 0, (0, 4)),
        (5, 0, 0, 1, (1, 5)),
        (6, 1, 1, 0, (2, 6)),
        (7, 1, 1, 1, (3, 7)),
    ]


@pytest.mark.parametrize(("cells", "expected"), [(None, [0, 1]), (1, [0]), (4, [0, 1, 2, 3])])
def test_cells_are_the_sockets_unless_told(cells, expected):
    machine = Machine(sockets=2, cores=4, threads=1, memory_mb=4096, cells=cells)
    assert sorted({cpu.cell for cpu in machine.cpus}) == expected


@pytest.mark.parametrize(
    ("odd", "told"),
    [
        ({"sockets": 0}, "sockets = 0"),
        ({"threads": -1}, "threads = -1"),
        ({"memory_mb": 0}, "memory_mb = 0"),
        ({"cells": 0}, "numa_cells = 0"),
        ({"sockets": 1, "cores": 4, "cells": 3}, "4 cores cannot be spread"),
        ({"memory_mb": 1001}, "1001 MB cannot be spread"),
        ({"hostname": "a b"}, "hostname 'a b'"),
    ],
)
def test_what_cannot_be_is_refused(odd, told):
    with pytest.raises(SimulationError, match=told):
        Machine(**odd)
