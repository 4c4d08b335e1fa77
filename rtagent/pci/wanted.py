"""The specification of a device in a request's document, read."""

from __future__ import annotations

from collections.abc import Mapping

from rtagent.model.device import DEV_TYPES
from rtagent.model.wanted import Wanted
from rtagent.pci import words
from rtagent.pci.words import BadWord

#: Keys of the specification in a request's document (Nova's, of its InstancePCIRequest).
KEYS = (
    "vendor_id",
    "product_id",
    "dev_type",
    "physical_network",
    "trusted",
    "remote_managed",
    "live_migratable",
    "resource_class",
    "traits",
    "parent_ifname",
)


def parse_wanted(content: Mapping[str, str | None]) -> Wanted:
    """Of a request's document.

    :raises BadWord: naming the key and the rule.
    """
    unknown = sorted(content.keys() - set(KEYS))
    if unknown:
        raise BadWord(f"{unknown[0]}: the keys are {', '.join(KEYS)}")
    values: dict[str, object] = {}
    for key, value in content.items():
        try:
            values[key] = _READ[key](value)
        except BadWord as broken:
            raise BadWord(f"{key}: {broken}") from broken
    return Wanted(**values)  # type: ignore[arg-type]


def _network(value: object) -> str | None:
    return None if value is None else words.string(value)


def _dev_type(value: object) -> str:
    if value not in DEV_TYPES:
        raise BadWord(f"must be one of {', '.join(DEV_TYPES)}")
    return str(value)


_READ = {
    "vendor_id": words.hex_id,
    "product_id": words.hex_id,
    "dev_type": _dev_type,
    "physical_network": _network,
    "trusted": words.boolean,
    "remote_managed": words.boolean,
    "live_migratable": words.boolean,
    "resource_class": words.resource_class,
    "traits": words.traits,
    "parent_ifname": words.string,
}
