"""The documents of provider files: schema 1.0, as Nova documents it.

Unknown fields are refused only where schema 1.0 refuses them. Elsewhere a later minor version may
add fields, which have no effect here.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from rtagent.conf.default import MAX_RATIO
from rtagent.model.base import MAX_INT, Count, Document, Positive, Value
from rtagent.model.converter import Converter

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
