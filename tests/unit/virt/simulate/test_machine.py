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
def test_the_default_is_one_cell_per_socket(cells, expected):
    machine = Machine(sockets=2, cores=4, threads=1, memory_mb=4096, cells=cells)
    assert sorted({cpu.cell for cpu in machine.cpus}) == expected


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        ({"sockets": 0}, "sockets = 0"),
        ({"threads": -1}, "threads = -1"),
        ({"memory_mb": 0}, "memory_mb = 0"),
        ({"cells": 0}, "numa_cells = 0"),
        ({"sockets": 1, "cores": 4, "cells": 3}, "4 cores cannot be spread"),
        ({"memory_mb": 1001}, "1001 MB cannot be spread"),
        ({"pages": {4: 1}}, "pages of 4 KiB: the size must be a power of two above 4"),
        ({"pages": {3000: 1}}, "pages of 3000 KiB"),
        ({"pages": {2048: -1}}, "-1 pages of 2048 KiB"),
        ({"memory_mb": 64, "pages": {2048: 17}}, "take 34816 KiB of each cell, which has 32768"),
        ({"hostname": "a b"}, "hostname 'a b'"),
        ({"gpus": -1}, "gpus = -1: it must be from 0 to 16"),
        ({"vfs": 257}, "vfs = 257: it must be from 0 to 256"),
    ],
)
def test_impossible_hardware_is_refused(odd, message):
    with pytest.raises(SimulationError, match=message):
        Machine(**odd)
