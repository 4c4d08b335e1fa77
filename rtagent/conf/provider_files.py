"""Read the provider files of `[compute] provider_config_location`.

The format and its rules are Nova's. Which providers the files describe is decided later, when the
node is known (`rtagent.placement.offers`).
"""

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from msgspec import UNSET
from msgspec.structs import asdict

from rtagent.conf import provider_schema as schema
from rtagent.conf.provider_schema import Identification, InventoryFields, ProviderItem
from rtagent.conf.provider_yaml import MAX_SHOWN, file_error, listed, read_document
from rtagent.errors import ProviderFileError
from rtagent.model.policy import COMPUTE_NODE, AdditionalInventory, ProviderEntry, ProviderFiles
from rtagent.model.printable import printable

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
    wrong = schema.schema_errors(document)
    entries: list[ProviderEntry] = []
    if not wrong:
        parsed = schema.documents.convert(document)
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
    for path in sorted(schema.unknown_fields(document)):
        place = printable(f"{file}: {path}", MAX_SHOWN)
        yield f"{place}: is not a field of schema {schema.KNOWN}; it is ignored"
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
