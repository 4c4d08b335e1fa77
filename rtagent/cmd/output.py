"""Output: cells, the values as each output format may show them, whatever text from outside they
contain, and columns that a table shows in another form than JSON and the other formats for
programs.

JSON and YAML are for programs: they are pure ASCII and contain the values unchanged. All other
formats may reach a terminal, a spreadsheet or a shell, where some characters have effects.
"""

import argparse
import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar

from cliff.columns import FormattableColumn
from cliff.formatters.base import ListFormatter, SingleFormatter

from rtagent.model.cpuset import format_cpu_spec
from rtagent.model.printable import printable, printable_lines
from rtagent.model.units import format_size

#: Formats that escape by themselves.
FAITHFUL = frozenset({"json", "yaml"})
#: Formats that show `FormattableColumn.human_readable`.
READABLE = frozenset({"table", "text"})

#: Beginnings of a cell that a spreadsheet takes for a formula, the full-width ones included.
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
#: Characters with an effect between double quotes in a shell; cliff escapes the quote itself.
_SHELL = re.compile(r"([\\$`])")

#: What has another form for a reader than Python's.
_IN_LINE = (bool, Mapping, list, tuple)

_T = TypeVar("_T")


class Column(FormattableColumn[_T], Generic[_T]):
    """A value that a table shows as lines, each of which is escaped."""

    @abstractmethod
    def lines(self) -> Iterable[str]:
        """Return the lines for a reader."""

    def human_readable(self) -> str:
        return "\n".join(map(printable, self.lines()))

    def __lt__(self, other: object) -> bool:
        """Order a list with ``--sort-column``: None is last, as cliff has it for plain values, and
        documents have the order of their lines. cliff leaves rows that it cannot compare unsorted.
        """
        if not isinstance(other, Column):
            return NotImplemented
        if self._value is None or other._value is None:
            return self._value is not None
        try:
            return bool(self._value < other._value)
        except TypeError:
            return list(self.lines()) < list(other.lines())


class SafeFormatter(ListFormatter, SingleFormatter):
    """A formatter that receives safe cells only."""

    def __init__(self, name: str, formatter: ListFormatter | SingleFormatter) -> None:
        """:param name: of the format."""
        self._name, self._formatter = name, formatter

    def add_argument_group(self, parser: argparse.ArgumentParser) -> None:
        """Add nothing: there are no options."""

    def emit_list(
        self, column_names: Sequence[str], data: Iterable[Sequence[Any]], *others: Any
    ) -> None:
        """Print rows."""
        assert isinstance(self._formatter, ListFormatter)
        rows = [self._row(row) for row in data]
        self._formatter.emit_list(self._row(column_names), rows, *others)

    def emit_one(self, column_names: Sequence[str], data: Sequence[Any], *others: Any) -> None:
        """Print one item."""
        assert isinstance(self._formatter, SingleFormatter)
        self._formatter.emit_one(self._row(column_names), self._row(data), *others)

    def _row(self, row: Iterable[Any]) -> list[Any]:
        return [safe(value, self._name) for value in row]


def safe(value: Any, format_: str) -> Any:
    """Return a cell that the format may show. Numbers stay as they are, and so does None, which is
    empty for a reader and in CSV.

    For a reader, a truth value, a list or a document has the form of `in_line`. Other formats get
    the text that Python has for it, which may contain any character that a shell interprets.
    """
    if format_ in FAITHFUL:
        return value
    if format_ in READABLE and (value is None or isinstance(value, _IN_LINE)):
        value = "" if value is None else in_line(value)
    if isinstance(value, FormattableColumn):
        if format_ in READABLE:
            return value if isinstance(value, Column) else printable_lines(value.human_readable())
        machine = value.machine_readable()
        value = None if machine is None else str(machine)
    if value is None or isinstance(value, int | float):
        return value
    value = str(value)
    if format_ == "text":
        return printable_lines(value)
    text = printable(value)
    if format_ == "csv":
        return f"'{text}" if text.lstrip().startswith(_FORMULA) else text
    return _SHELL.sub(r"\\\1", text) if format_ == "shell" else text


def in_line(value: Any) -> str:
    """Return a value as a reader sees it in one line: ``name:value,...`` for a document."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if isinstance(value, Mapping):
        return ",".join(f"{name}:{in_line(part)}" for name, part in value.items())
    if isinstance(value, str | int | float):
        return str(value)
    between = "|" if any(isinstance(item, Mapping) for item in value) else ","
    return between.join(map(in_line, value))


def plain_xml(document: str) -> str:
    """Return an XML document with a character reference for each character that `safe` escapes,
    so that its meaning stays.
    """
    return "".join(
        char if char.isprintable() or char in "\n\t" else f"&#{ord(char)};" for char in document
    )


_Documents = Sequence[Mapping[str, Any]]


class YesNo(Column[Any]):
    """``yes`` if the value is true, else an empty cell."""

    def lines(self) -> Iterable[str]:
        return ["yes"] if self._value else []


class OrEmpty(Column[Any]):
    """The value, or an empty cell for None."""

    def lines(self) -> Iterable[str]:
        return [] if self._value is None else [str(self._value)]


class KeyValues(Column[Mapping[str, Any]]):
    """A line ``name=value`` for each value that is not empty; of a document in it,
    ``name.part=value`` for each part."""

    def lines(self) -> Iterable[str]:
        return _pairs(self._value)


class Counts(Column[Mapping[str, int]]):
    """A line ``name=number`` for each number that is not zero."""

    def lines(self) -> Iterable[str]:
        return [f"{name}={number}" for name, number in self._value.items() if number]


class Lines(Column[Sequence[Any]]):
    """A line for each item."""

    def lines(self) -> Iterable[str]:
        return map(str, self._value)


def mapping(value: Mapping[str, Any] | None) -> KeyValues:
    """Return the column of a document that may be absent."""
    return KeyValues(value or {})


def timestamp(time: str | datetime | None) -> OrEmpty:
    """Return the column of a time: UTC, ISO 8601, whole seconds."""
    if time is None:
        return OrEmpty(None)
    text = time if isinstance(time, str) else time.isoformat()
    day_and_time = text.removesuffix("Z").removesuffix("+00:00")
    return OrEmpty(day_and_time.partition(".")[0] + "Z")


class DeviceLines(Column[_Documents]):
    """A line for each PCI device of a claim."""

    def lines(self) -> Iterable[str]:
        return [", ".join(_device(device)) for device in self._value]


class AssignedResources(Column[_Documents]):
    """A line for each assigned resource of a claim."""

    def lines(self) -> Iterable[str]:
        return [f"{each['resource_class']} {each['identifier']}" for each in self._value]


class AssignedQuantities(Column[_Documents]):
    """A line for each quantity of a claim, with its provider."""

    def lines(self) -> Iterable[str]:
        return [
            f"{each['resource_class']}={each['quantity']} of {each['provider']}"
            for each in self._value
        ]


class AllocationLines(Column[Mapping[str, Any]]):
    """A line for each resource provider, with what is allocated there."""

    def lines(self) -> Iterable[str]:
        for provider, each in sorted(self._value.items()):
            numbers = (f"{name}={number}" for name, number in sorted(each["resources"].items()))
            yield f"{provider}: {', '.join(numbers)}"


class PciRequests(Column[_Documents]):
    """A line for each PCI request, with its fields that are not empty."""

    def lines(self) -> Iterable[str]:
        return [" ".join(_pairs(request)) for request in self._value]


class PciPools(Column[_Documents]):
    """A line for each pool of PCI devices."""

    def lines(self) -> Iterable[str]:
        return [", ".join(_pool(pool)) for pool in self._value]


class AssignmentLines(Column[Mapping[str, Any] | None]):
    """The NUMA assignment of a claim: a line for each cell and for each setting of the guest."""

    def lines(self) -> Iterable[str]:
        return _assignment(self._value) if self._value else []


class CellLines(Column[Mapping[str, Any] | None]):
    """The lines of each NUMA cell of a host, in the words of ``rtagent numa show``."""

    def lines(self) -> Iterable[str]:
        for cell in self._value["cells"] if self._value else ():
            yield from _host_cell(cell)


def page_usage(pool: Mapping[str, Any]) -> str:
    """Return how many pages of a pool are in use."""
    return f"{pool['used']} used, {pool['reserved']} reserved, {pool['total']} in all"


def pins(cell: Mapping[str, Any]) -> str:
    """Return the vCPUs of a guest cell with their host CPUs."""
    pinning = sorted((int(vcpu), cpu) for vcpu, cpu in cell["cpu_pinning"].items())
    return " ".join(f"{vcpu}:{cpu}" for vcpu, cpu in pinning)


def _pairs(document: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in document.items():
        if isinstance(value, Mapping):
            yield from _pairs(value, f"{prefix}{name}.")
        elif value not in (None, "", []):
            yield f"{prefix}{name}={in_line(value)}"


def _host_cell(cell: Mapping[str, Any]) -> Iterator[str]:
    assigned = f"{cell['memory_usage']} of {cell['memory']} MB assigned"
    yield f"cell {cell['id']}: {assigned}, {cell['cpu_usage']} shared vCPUs assigned"
    for use, name in ("shared", "cpuset"), ("dedicated", "pcpuset"), ("pinned", "pinned_cpus"):
        if cell[name]:
            yield f"  {use} CPUs {format_cpu_spec(cell[name])}"
    for pool in cell["mempages"]:
        if pool["total"]:
            yield f"  {format_size(pool['size_kb'])} pages: {page_usage(pool)}"
    networks = cell["network_metadata"]
    if names := [*networks["physnets"], *(["tunnels"] if networks["tunneled"] else [])]:
        yield f"  networks {', '.join(names)}"


def _device(device: Mapping[str, Any]) -> Iterator[str]:
    yield f"{device['address']} {_ids(device)} {device['dev_type']}"
    yield from _numa_node(device)
    yield f"for {device['alias_name'] or device['requester_id'] or device['request_id']}"


def _pool(pool: Mapping[str, Any]) -> Iterator[str]:
    tags = {**pool["tags"]}
    yield f"{pool['count']} of {_ids(pool)} {tags.pop('dev_type')}"
    yield from _numa_node(pool)
    yield from (f"{name}={value}" for name, value in tags.items() if value != "false")


def _ids(device: Mapping[str, Any]) -> str:
    return f"{device['vendor_id']}:{device['product_id']}"


def _numa_node(device: Mapping[str, Any]) -> Iterator[str]:
    if device["numa_node"] is not None:
        yield f"NUMA node {device['numa_node']}"


_CPU_SETS = {
    "shared_pcpus": "shared vCPUs run on CPUs",
    "emulator_pcpus": "the emulator runs on CPUs",
    "realtime": "realtime vCPUs",
}


def _assignment(assignment: Mapping[str, Any]) -> Iterator[str]:
    for number, cell in enumerate(assignment["cells"]):
        yield f"guest cell {number}: {'; '.join(_cell(cell))}"
    for name, text in _CPU_SETS.items():
        if assignment[name]:
            yield f"{text} {format_cpu_spec(assignment[name])}"
    if assignment["realtime"]:
        yield f"realtime priority {assignment['realtime_priority']}"
    if topology := assignment["cpu_topology"]:
        yield ", ".join(f"{topology[name]} {name}" for name in ("sockets", "cores", "threads"))
    if assignment["locked_memory"]:
        yield "memory is locked"


def _cell(cell: Mapping[str, Any]) -> Iterator[str]:
    pages = f" in pages of {format_size(cell['pagesize'])}" if cell["pagesize"] else ""
    yield f"host cell {cell['id']}, {cell['memory']} MB{pages}"
    if cell["cpu_pinning"]:
        yield f"vCPU on CPU: {pins(cell)}"
    if cell["cpuset"]:
        shared = cell["shared_pcpus"]
        on = f" on CPUs {format_cpu_spec(shared)}" if shared else ""
        yield f"shared vCPUs {format_cpu_spec(cell['cpuset'])}{on}"
    if cell["cpuset_reserved"]:
        yield f"emulator on CPUs {format_cpu_spec(cell['cpuset_reserved'])}"
    if cell["cpuset_kept"]:
        yield f"unused siblings: CPUs {format_cpu_spec(cell['cpuset_kept'])}"
