"""Provider files, written and read."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml

from rtagent.conf.provider_files import read_files
from rtagent.model.policy import COMPUTE_NODE, AdditionalInventory, ProviderFiles

CLASS, TRAIT = "CUSTOM_LLC", "CUSTOM_P_STATE"


def entry(
    identification: dict[str, Any] | None = None,
    inventories: dict[str, dict[str, Any]] | None = None,
    traits: tuple[str, ...] = (),
) -> dict[str, Any]:
    """An item of ``providers``; by default for this node."""
    item: dict[str, Any] = {"identification": identification or {"uuid": COMPUTE_NODE}}
    if inventories is not None:
        item["inventories"] = {"additional": [{name: each} for name, each in inventories.items()]}
    if traits:
        item["traits"] = {"additional": list(traits)}
    return item


def example() -> dict[str, Any]:
    """An item with every field of the format."""
    fields = {
        "total": 22,
        "reserved": 2,
        "min_unit": 1,
        "max_unit": 11,
        "step_size": 1,
        "allocation_ratio": 1.5,
    }
    return entry(None, {CLASS: fields}, (TRAIT,))


def added(resource_class: str = CLASS, suffix: str = "", **fields: Any) -> AdditionalInventory:
    """Return what a provider file adds: by default 12 units, (10 - 2) * 1.5, 10 of them at most."""
    limits = {"total": 10, "reserved": 2, "min_unit": 1, "max_unit": 10, "step_size": 1}
    whole = {**limits, "allocation_ratio": Decimal("1.5"), **fields}
    return AdditionalInventory(suffix=suffix, resource_class=resource_class, **whole)


def document(*entries: dict[str, Any], version: Any = "1.0") -> dict[str, Any]:
    return {"meta": {"schema_version": version}, "providers": list(entries)}


def additional(resource_class: str, total: int, **fields: Any) -> AdditionalInventory:
    """What a file adds to the root provider, by default one unit each. :param fields: others."""
    plain = {"reserved": 0, "min_unit": 1, "max_unit": total, "step_size": 1}
    return AdditionalInventory(
        **{"suffix": "", "allocation_ratio": Decimal(1), **plain, **fields},
        resource_class=resource_class,
        total=total,
    )


def write(directory: Path, name: str, *entries: dict[str, Any]) -> Path:
    """Write a provider file with these items, and return its path."""
    directory.mkdir(exist_ok=True)
    file = directory / name
    file.write_text(yaml.safe_dump(document(*entries)))
    return file


def provider_files(directory: Path, *entries: dict[str, Any]) -> ProviderFiles:
    """Return what one file with these items adds."""
    write(directory, "a.yaml", *entries)
    files, mistakes = read_files(str(directory))
    assert mistakes == []
    return files
