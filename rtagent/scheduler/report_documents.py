"""Reports and instance infos as JSON primitives, and back.

The description of a host and a list of instance infos may have more values than one message may
have, so a message has them as packed text: JSON, compressed by zlib, in base64.
"""

import base64
import binascii
import math
import re
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from decimal import Decimal
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta
from msgspec.json import Decoder
from msgspec.structs import replace

from rtagent.errors import InvalidRequest
from rtagent.model import host_report
from rtagent.model.base import BASE64, UUID, Converter, Count, Document, Entries, Name, Uuid
from rtagent.scheduler.report import canonical

_T = TypeVar("_T")
#: Yields what a value of the right type has that makes no sense: the path, and a sentence.
_Wrong = Callable[[_T], Iterator[tuple[str, str]]]

#: The most characters of a packed text, and bytes and values of the JSON in it. A host that has as
#: much as `rtagent.model.host_report` allows has 7 MB and 401,000 values.
MAX_PACKED = 2**20
MAX_UNPACKED = 2**23
MAX_VALUES = 500_000
#: Larger texts are unpacked one at a time, so that many of them need no more memory than one.
MAX_SMALL = 2**16
#: Integers of a report fit a signed 64-bit column.
MAX_MAGNITUDE = 2**63
MAX_TEXT = 65535

Packed = Annotated[str, Meta(max_length=MAX_PACKED, pattern=BASE64)]

#: Fields of a report that release 0.2.0 has in the node. It has no ``ended``.
_IN_NODE = ("number", "page_url", "service", "unknown")

_STORABLE = re.compile(rf"[^\u0000\ud800-\udfff]{{0,{MAX_TEXT}}}")
_NOT_STORABLE = f"must be text of at most {MAX_TEXT} characters that can be stored"
#: An error of msgspec: its sentence and the path.
_ERROR = re.compile(r"(?P<sentence>.*) - at (?:`key` in )?`\$(?P<path>.*)`", re.DOTALL)


class UpdateHostState(Document, frozen=True, kw_only=True):
    """The arguments of `update_host_state`. :ivar report: see `report_document`."""

    report: Entries[Name, object]


class _OfInstances(Document, frozen=True, kw_only=True):
    """:ivar epoch: of the agent. :ivar revision: the number of the message about instances. The
    numbers of one epoch have no gap.
    """

    host: Name
    node_uuid: Uuid
    epoch: Count
    revision: Count


class UpdateInstanceInfo(_OfInstances, frozen=True, kw_only=True):
    """The arguments of `update_instance_info`. :ivar instances: new or changed, see
    `instances_text`.
    """

    instances: Packed


class DeleteInstanceInfo(_OfInstances, frozen=True, kw_only=True):
    """The arguments of `delete_instance_info`."""

    instance_uuid: Uuid


class SyncInstanceInfo(_OfInstances, frozen=True, kw_only=True):
    """The arguments of `sync_instance_info`.

    :ivar digest: of the uuids of all instances. :ivar instances: all of them; null: the
        digest alone is sent.
    """

    digest: Name
    instances: Packed | None = None


#: A message about the instances of a host.
InstanceMessage = UpdateInstanceInfo | DeleteInstanceInfo | SyncInstanceInfo

_reports = Converter(host_report.HostReport, str_keys=True)
_descriptions = Decoder(host_report.HostDescription)
_instances = Decoder(tuple[host_report.InstanceInfo, ...])
_one_large = threading.Lock()
_invalid = InvalidRequest.at


def is_uuid(text: str) -> bool:
    """Return whether a text is the uuid of a node."""
    return re.fullmatch(UUID, text) is not None


def report_document(report: host_report.HostReport) -> dict[str, Any]:
    """Return a report as JSON primitives. Its description is packed."""
    without = replace(report, description=None)
    document: dict[str, Any] = msgspec.to_builtins(without, str_keys=True, order="deterministic")
    if report.description is not None:
        document["description"] = _pack(canonical(report.description))
    return document


def report_from(document: Mapping[str, Any]) -> host_report.HostReport:
    """Return the report that a document is.

    :raises InvalidRequest: a field is missing, unknown or wrong, or the host is beyond a
        bound.
    """
    method, where = "update_host_state", "$.report"
    if "ended" not in document:
        document = _of_release_0_2_0(document)
    for name in _missing(document, host_report.HostReport):
        raise _invalid(method, f"{where}.{name}", "is required")
    usage = document["usage"]
    for name in _missing(usage, host_report.HostUsage) if isinstance(usage, Mapping) else ():
        raise _invalid(method, f"{where}.usage.{name}", "is required")
    packed = document["description"]
    for path, sentence in _unbounded({**document, "description": None}):
        raise _invalid(method, where + path, sentence)
    try:
        report = _reports.convert({**document, "description": None})
    # The second is raised for a key that is not valid Unicode, the third for a deep document.
    except (msgspec.ValidationError, UnicodeEncodeError, RecursionError) as error:
        raise _malformed(method, where, error) from error
    if not is_uuid(report.node.uuid):
        raise _invalid(method, f"{where}.node.uuid", "must be a uuid")
    if packed is None:
        return report
    at = f"{where}.description"
    return replace(report, description=_unpack(method, at, packed, _descriptions, _wrong))


def _of_release_0_2_0(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a report of that release in the form of this one: schedulers are upgraded first."""
    node = document.get("node")
    fields = node if isinstance(node, Mapping) else {}
    found = {name: fields[name] for name in _IN_NODE if name in fields}
    return {"ended": (), "number": 0, "page_url": "", "unknown": (), **document, **found}


def instances_text(instances: Sequence[host_report.InstanceInfo]) -> str:
    """Return instance infos as packed text."""
    return _pack(msgspec.json.encode(instances))


def instances_from(method: str, text: object) -> tuple[host_report.InstanceInfo, ...]:
    """Return the instance infos of a packed text.

    :param method: of the message, for errors. :raises InvalidRequest: the text, or a field of an
        instance, is wrong.
    """
    return _unpack(method, "$.instances", text, _instances, _too_many)


def _pack(encoded: bytes) -> str:
    # The fastest compression, because an agent packs the instance of each claim that it grants.
    return base64.b64encode(zlib.compress(encoded, level=1)).decode()


def _unpack(method: str, at: str, text: object, decoder: Decoder[_T], wrong: _Wrong[_T]) -> _T:
    """Return what a packed text has."""
    try:
        return _unpacked(method, at, text, decoder, wrong)
    except InvalidRequest as error:
        refusal = error.with_traceback(None)
    except msgspec.ValidationError as error:
        refusal = _malformed(method, at, error)
    except (binascii.Error, ValueError, zlib.error, RecursionError) as error:
        refusal = _invalid(method, at, f"is not a packed text: {error}")
    # Not in the handlers: the traceback of the other error would keep the document in memory.
    raise refusal


def _unpacked(method: str, at: str, text: object, decoder: Decoder[_T], wrong: _Wrong[_T]) -> _T:
    """Return what a packed text has, or raise any of several errors.

    A few kB can unpack to any size, and a value may need a hundred times the memory of its JSON. So
    bytes and values are counted first.
    """
    if not isinstance(text, str) or len(text) > MAX_PACKED:
        raise _invalid(method, at, f"must be a packed text of at most {MAX_PACKED} characters")
    unpacker = zlib.decompressobj()
    encoded = unpacker.decompress(base64.b64decode(text, validate=True), MAX_SMALL)
    with nullcontext() if unpacker.eof else _one_large:
        encoded += unpacker.decompress(unpacker.unconsumed_tail, MAX_UNPACKED - MAX_SMALL)
        if not unpacker.eof:
            raise _invalid(method, at, f"must have at most {MAX_UNPACKED} bytes, and be complete")
        if sum(map(encoded.count, (b"[", b"{", b","))) > MAX_VALUES:
            raise _invalid(method, at, f"must have at most {MAX_VALUES} values")
        value = decoder.decode(encoded)
        for path, sentence in wrong(value):
            raise _invalid(method, at + path, sentence)
        for path, sentence in _unbounded(msgspec.to_builtins(value, str_keys=True)):
            raise _invalid(method, at + path, sentence)
        return value


def _missing(document: object, type_: type[Document]) -> Iterator[str]:
    """Yield the fields that a document lacks. A sender sends all of them, and a default would be
    a guess.
    """
    given = document if isinstance(document, Mapping) else ()
    return (name for name in type_.__struct_fields__ if name not in given)


def _unbounded(document: dict[str, Any] | list[Any]) -> Iterator[tuple[str, str]]:
    """Yield the primitives that no field can have. Without recursion: documents may be deep."""
    left: list[tuple[str, Any]] = [("", document)]
    while left:
        path, container = left.pop()
        by_name = isinstance(container, dict)
        for key, value in container.items() if by_name else enumerate(container):
            if isinstance(value, str):
                why = "" if _STORABLE.fullmatch(value) else _NOT_STORABLE
            elif isinstance(value, dict | list | tuple):
                left.append((f"{path}.{key}" if by_name else f"{path}[{key}]", value))
                continue
            elif isinstance(value, float):
                why = "" if math.isfinite(value) else "must be a finite number"
            elif isinstance(value, int):
                why = "" if abs(value) < MAX_MAGNITUDE else f"must be less than {MAX_MAGNITUDE}"
            else:  # null
                continue
            if why:
                yield f"{path}.{key}" if by_name else f"{path}[{key}]", why


def _wrong(description: host_report.HostDescription) -> Iterator[tuple[str, str]]:
    """Yield the bounds that a host is beyond, and the values that have no meaning."""
    yield from host_report.beyond_bounds(description)
    policy, cells = description.policy, description.topology.cells
    for name in ("cpu", "ram", "disk"):
        if not _is_ratio(getattr(policy, f"{name}_allocation_ratio")):
            yield f".policy.{name}_allocation_ratio", "must be a positive number"
    for index, inventory in enumerate(policy.placement.additional):
        if not _is_ratio(inventory.allocation_ratio) or inventory.step_size < 1:
            yield f".policy.placement.additional[{index}]", "must have a ratio and a step above 0"
    for index, cell in enumerate(cells):
        if any(size < 1 for size in cell.pages):
            yield f".topology.cells[{index}].pages", "must have sizes above 0"


def _too_many(instances: Sequence[host_report.InstanceInfo]) -> Iterator[tuple[str, str]]:
    yield from (("", sentence) for sentence in host_report.beyond_instances(len(instances)))


def _is_ratio(ratio: Decimal) -> bool:
    return ratio.is_finite() and ratio > 0


def _malformed(method: str, at: str, error: Exception) -> InvalidRequest:
    match = _ERROR.fullmatch(str(error))
    path, sentence = (match["path"], match["sentence"]) if match else ("", str(error))
    return _invalid(method, at + path, sentence)
