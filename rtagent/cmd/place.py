"""A claim's place on the host, as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cliff.columns import FormattableColumn

from rtagent.model.cpuset import format_cpu_spec
from rtagent.model.pages import format_size


class Place(FormattableColumn[Mapping[str, Any] | None]):
    """A line for each cell, and for each thing that holds for all of them."""

    def human_readable(self) -> str:
        return "\n".join(_lines(self._value)) if self._value else ""


def _lines(placed: Mapping[str, Any]) -> Iterator[str]:
    for number, cell in enumerate(placed["cells"]):
        yield f"guest cell {number}: {'; '.join(_cell(cell))}"
    for name in ("shared_pcpus", "emulator_pcpus", "realtime"):
        if placed[name]:
            yield f"{_WORDS[name]} {format_cpu_spec(placed[name])}"
    if placed["realtime"]:
        yield f"realtime priority {placed['realtime_priority']}"
    if topology := placed["cpu_topology"]:
        yield ", ".join(f"{topology[name]} {name}" for name in ("sockets", "cores", "threads"))
    if placed["locked_memory"]:
        yield "memory is locked"


_WORDS = {
    "shared_pcpus": "shared vCPUs float on CPUs",
    "emulator_pcpus": "the emulator runs on CPUs",
    "realtime": "realtime vCPUs",
}


def _cell(cell: Mapping[str, Any]) -> Iterator[str]:
    pages = f" in pages of {format_size(cell['pagesize'])}" if cell["pagesize"] else ""
    yield f"host cell {cell['id']}, {cell['memory']} MB{pages}"
    if cell["cpu_pinning"]:
        pins = sorted((int(vcpu), cpu) for vcpu, cpu in cell["cpu_pinning"].items())
        yield "vCPU on CPU: " + " ".join(f"{vcpu}:{cpu}" for vcpu, cpu in pins)
    if cell["cpuset"]:
        on = format_cpu_spec(cell["shared_pcpus"])
        yield f"shared vCPUs {format_cpu_spec(cell['cpuset'])} on CPUs {on}"
    if cell["cpuset_reserved"]:
        yield f"emulator on CPUs {format_cpu_spec(cell['cpuset_reserved'])}"
    if cell["cpuset_kept"]:
        yield f"kept idle: CPUs {format_cpu_spec(cell['cpuset_kept'])}"
