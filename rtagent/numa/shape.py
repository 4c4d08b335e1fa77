"""What a guest cell needs, whichever of the guest's vCPUs it has: equal cells are fitted once."""

from __future__ import annotations

from rtagent.model.base import Value
from rtagent.model.pages import PageRequest
from rtagent.numa.constraints import Constraints


class Shape(Value, frozen=True, kw_only=True):
    """:ivar vcpus: shared ones. :ivar pcpus: dedicated ones.
    :ivar reserved: host CPUs for the emulator, which come out of guest cell 0.
    :ivar memory: MB. :ivar pagesize: None: as it comes.
    """

    vcpus: int
    pcpus: int
    reserved: int
    memory: int
    pagesize: PageRequest | None
    cpu_policy: str
    cpu_thread_policy: str


def shapes(constraints: Constraints) -> tuple[Shape, ...]:
    """Of each guest cell."""
    return tuple(
        Shape(
            vcpus=len(cell.cpuset),
            pcpus=len(cell.pcpuset),
            reserved=constraints.reserved_pcpus if place == 0 else 0,
            memory=cell.memory,
            pagesize=cell.pagesize,
            cpu_policy=constraints.cpu_policy,
            cpu_thread_policy=constraints.cpu_thread_policy,
        )
        for place, cell in enumerate(constraints.cells)
    )
