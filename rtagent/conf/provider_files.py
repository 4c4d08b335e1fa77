"""Read the provider files of `[compute] provider_config_location`.

The format and its rules are schema 1.0, as Nova documents it. Unknown fields are refused only where
schema 1.0 refuses them; elsewhere a later minor version may add fields, which have no effect here.
Which providers the files describe is decided later, when the node is known
(`rtagent.placement.offers`).
"""

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict

from rtagent.conf.default import MAX_RATIO
from rtagent.conf.provider_yaml import MAX_SHOWN, file_error, listed, read_document
from rtagent.errors import ProviderFileError
from rtagent.model.base import MAX_INT, Converter, Count, Document, Positive, Value
from rtagent.model.policy import COMPUTE_NODE, AdditionalInventory, ProviderEntry, ProviderFiles
from rtagent.model.printable import printable

#: The versions whose documents can be read.
VERSION = re.compile(r"1\.(0|[1-9][0-9]*)")
#: The version whose fields are known.
KNOWN = "1.0"
#: A field that the format reserves for programs.
RESERVED = "__source_file"

Name = Annotated[str, Meta(max_length=255)]
Ratio = Annotated[float, Meta(ge=0.000001, le=MAX_RATIO)]


class InventoryFields(Document, frozen=True, kw_only=True):
    """An inventory. The defaults are Placement's."""

    total: Positive
    reserved: Count = 0
    min_unit: Positive = 1
    max_unit: Positive = MAX_INT
    step_size: Positive = 1
    allocation_ratio: Ratio = 1.0


class Identification(Document, frozen=True, kw_only=True):
    """Exactly one of the fields has to be there."""

    uuid: str | UnsetType = UNSET
    name: Annotated[str, Meta(min_length=1, max_length=200)] | UnsetType = UNSET


class ProviderInventories(Value, frozen=True, kw_only=True):
    """Inventories by resource class; most often each mapping has one."""

    additional: tuple[dict[Name, InventoryFields], ...] = ()


class Traits(Value, frozen=True, kw_only=True):
    """Names of traits."""

    additional: tuple[Name, ...] = ()


class ProviderItem(Value, frozen=True, kw_only=True):
    """One provider, and what is added to it."""

    identification: Identification
    inventories: ProviderInventories = ProviderInventories()
    traits: Traits = Traits()


class FileMeta(Value, frozen=True, kw_only=True):
    """About the document."""

    schema_version: str


class ProviderDocument(Value, frozen=True, kw_only=True):
    """A provider file."""

    meta: FileMeta
    providers: tuple[ProviderItem, ...] = ()


documents = Converter(ProviderDocument)


def schema_errors(document: object) -> list[tuple[str, str]]:
    """Return (JSONPath, sentence) for each place of a document that violates the schema.

    The version is judged first, because the rest of another major version means something else.
    """
    if wrong := list(_version_errors(document)):
        return wrong
    try:
        documents.convert(document)
    except (msgspec.ValidationError, UnicodeEncodeError) as refusal:
        # jsonschema takes long to import, and only a refusal needs it.
        from rtagent.model import schema_errors as explanations

        explained = explanations.schema_errors(msgspec.json.schema(ProviderDocument), document)
        return explained or [("$", str(refusal))]
    return []


def unknown_fields(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the JSONPaths of fields that have no effect, of a document without errors."""
    yield from _unknown(document, ProviderDocument, "$")
    yield from _unknown(document["meta"], FileMeta, "$.meta")
    for number, item in enumerate(document.get("providers", ())):
        path = f"$.providers[{number}]"
        yield from _unknown(item, ProviderItem, path)
        for name, kind in (("inventories", ProviderInventories), ("traits", Traits)):
            yield from _unknown(item.get(name, {}), kind, f"{path}.{name}")


def _unknown(document: Mapping[str, Any], kind: type[Struct], path: str) -> Iterator[str]:
    from rtagent.model.schema_errors import step

    for name in document.keys() - set(kind.__struct_fields__):
        yield path + step(name)


def _version_errors(document: object) -> Iterator[tuple[str, str]]:
    if not isinstance(document, dict):
        return
    if RESERVED in document:
        yield f"$.{RESERVED}", "is reserved, and must not be in a file"
    meta = document.get("meta")
    version = meta.get("schema_version") if isinstance(meta, dict) else None
    if isinstance(version, float | int):
        yield "$.meta.schema_version", "must be in quotes"
    elif isinstance(version, str) and not VERSION.fullmatch(version):
        yield "$.meta.schema_version", f"must be '{KNOWN}', or a later 1.x"


#: The suffix of the names of provider files.
SUFFIX = ".yaml"

_CUSTOM = re.compile(r"CUSTOM_[A-Z0-9_]+")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_CUSTOM_RULE = "only names of the form CUSTOM_[A-Z0-9_]+ can be added; the agent sets all others"


def read_files(location: str) -> tuple[ProviderFiles, list[ProviderFileError]]:
    """Read all files of a directory, in the order of their names.

    :param location: "" or an absent directory: there are none.
    :returns: what they add, and every mistake. Entries with a mistake are left out.
    """
    entries: list[ProviderEntry] = []
    doubts: list[str] = []
    mistakes: list[ProviderFileError] = []
    try:
        files = _listed(location)
    except ProviderFileError as error:
        return ProviderFiles(), [error]
    for file in files:
        try:
            document = read_document(file)
        except ProviderFileError as error:
            mistakes.append(error)
            continue
        found, wrong = _parsed(file, document)
        mistakes += listed(file, wrong, file_error)
        if not wrong:
            doubts += _doubts(file, document, found)
        entries += (each for each in found if each.inventories or each.traits)
    mistakes += _repeated(entries)
    return ProviderFiles(entries=tuple(entries), doubts=tuple(doubts)), mistakes


def _listed(location: str) -> Sequence[Path]:
    if not location:
        return ()
    directory = Path(location)
    if not directory.is_absolute():
        raise file_error(directory, "", "[compute] provider_config_location must be absolute")
    try:
        names = os.listdir(directory)
    except FileNotFoundError as exc:
        if directory.is_symlink():
            raise file_error(directory, "", "is a link to a directory that is missing") from exc
        return ()
    except OSError as exc:
        raise file_error(directory, "", f"cannot be listed: {exc.strerror}") from exc
    # As with a shell's pattern, files whose names begin with a dot are hidden.
    return [
        directory / name
        for name in sorted(names)
        if name.endswith(SUFFIX) and not name.startswith(".")
    ]


def _parsed(file: Path, document: Any) -> tuple[list[ProviderEntry], list[ProviderFileError]]:
    wrong = schema_errors(document)
    entries: list[ProviderEntry] = []
    if not wrong:
        parsed = documents.convert(document)
        for number, item in enumerate(parsed.providers):
            path = f"$.providers[{number}]"
            errors = list(_item_errors(item, path))
            if not errors:
                entries.append(_entry(file, path, item))
            wrong += errors
    return entries, [file_error(file, path, rule) for path, rule in wrong]


def _item_errors(item: ProviderItem, path: str) -> Iterator[tuple[str, str]]:
    """Yield (JSONPath, rule) for the rules that the types cannot express."""
    yield from _identification_errors(item.identification, f"{path}.identification")
    classes = Counter(name for group in item.inventories.additional for name in group)
    for number, group in enumerate(item.inventories.additional):
        for name, fields in group.items():
            here = f"{path}.inventories.additional[{number}].{name}"
            if not _CUSTOM.fullmatch(name):
                yield here, _CUSTOM_RULE
            elif classes[name] > 1:
                yield here, "the resource class is added twice to this provider"
            yield from _inventory_errors(fields, here)
    for number, name in enumerate(item.traits.additional):
        if not _CUSTOM.fullmatch(name):
            yield f"{path}.traits.additional[{number}]", f"{name}: {_CUSTOM_RULE}"


def _identification_errors(given: Identification, path: str) -> Iterator[tuple[str, str]]:
    uuid, name = given.uuid or None, given.name or None
    if (uuid is None) == (name is None):
        yield path, "must have a uuid or a name, and not both"
    elif name == COMPUTE_NODE:
        yield f"{path}.name", f"must be written as uuid: {COMPUTE_NODE}"
    elif uuid not in (None, COMPUTE_NODE) and not _UUID.fullmatch(uuid.lower()):
        yield f"{path}.uuid", f"must be a uuid with its dashes, or {COMPUTE_NODE}"


def _inventory_errors(fields: InventoryFields, path: str) -> Iterator[tuple[str, str]]:
    if fields.reserved > fields.total:
        yield f"{path}.reserved", f"must be at most the total ({fields.total})"
    if fields.min_unit > fields.max_unit:
        yield f"{path}.min_unit", f"must be at most max_unit ({fields.max_unit})"


def _entry(file: Path, path: str, item: ProviderItem) -> ProviderEntry:
    uuid, name = item.identification.uuid, item.identification.name
    if uuid is not UNSET and uuid != COMPUTE_NODE:
        uuid = uuid.lower()
    return ProviderEntry(
        file=printable(str(file)),
        path=path,
        uuid=None if uuid is UNSET else uuid,
        name=None if name is UNSET else name,
        inventories=tuple(
            _inventory(name, fields)
            for group in item.inventories.additional
            for name, fields in group.items()
        ),
        traits=frozenset(item.traits.additional),
    )


def _inventory(resource_class: str, fields: InventoryFields) -> AdditionalInventory:
    # The number as the operator wrote it, not its nearest binary fraction.
    exact = {**asdict(fields), "allocation_ratio": Decimal(str(fields.allocation_ratio))}
    return AdditionalInventory(suffix="", resource_class=resource_class, **exact)


def _doubts(file: Path, document: Any, entries: Sequence[ProviderEntry]) -> Iterator[str]:
    for path in sorted(unknown_fields(document)):
        place = printable(f"{file}: {path}", MAX_SHOWN)
        yield f"{place}: is not a field of schema {KNOWN}; it is ignored"
    for each in entries:
        if not each.inventories and not each.traits:
            yield f"{each.origin}: adds no inventory and no trait; it is ignored"


def _repeated(entries: Sequence[ProviderEntry]) -> Iterator[ProviderFileError]:
    first: dict[str, ProviderEntry] = {}
    for each in entries:
        other = first.setdefault(each.identification, each)
        if other is not each:
            what = f"provider {each.identification} is described a second time"
            rule = f"{what}, first in {other.origin}"
            yield file_error(Path(each.file), each.path, rule)
