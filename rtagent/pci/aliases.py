"""``[pci] alias``: the names by which flavors request devices."""

from __future__ import annotations

from collections.abc import Sequence

from rtagent.errors import PciInvalidAlias
from rtagent.model.device import DEV_TYPES, LEGACY, PCI_NUMA_POLICIES, DeviceCriteria
from rtagent.model.policy import Alias, Aliases
from rtagent.pci import parsing
from rtagent.pci.parsing import OptionDocument, option_documents

OPTION = "alias"
KEYS = (
    "name",
    "vendor_id",
    "product_id",
    "device_type",
    "numa_policy",
    "resource_class",
    "traits",
    "live_migratable",
    # Nova's files may have this key, with this one value; it has no effect.
    "capability_type",
)
CAPABILITY_TYPES = ("pci",)


def parse_aliases(values: Sequence[str]) -> Aliases:
    """Parse the values of the option. A repeated name adds an alternative to its alias.

    :raises PciInvalidAlias: names the index, the key and the rule.
    """
    aliases: dict[str, Alias] = {}
    for document in option_documents(OPTION, values, PciInvalidAlias):
        alias = _parse_alias(document)
        known = aliases.get(alias.name)
        aliases[alias.name] = alias if known is None else _combine(known, alias, document)
    return aliases


def _parse_alias(document: OptionDocument) -> Alias:
    document.check_keys(KEYS)
    document.choose("capability_type", CAPABILITY_TYPES, None)
    if "name" not in document.content:
        raise document.invalid("", "has no name")
    has_ids = "vendor_id" in document.content and "product_id" in document.content
    resource_class = document.get("resource_class", parsing.parse_resource_class, None)
    if not has_ids and resource_class is None:
        raise document.invalid("", "needs vendor_id and product_id, or resource_class")
    criteria = DeviceCriteria(
        vendor_id=document.get("vendor_id", parsing.parse_hex_id, None),
        product_id=document.get("product_id", parsing.parse_hex_id, None),
        dev_type=document.choose("device_type", DEV_TYPES, None),
        resource_class=resource_class,
        traits=document.get("traits", parsing.parse_traits, frozenset()),
        live_migratable=document.get("live_migratable", parsing.parse_boolean, None),
    )
    return Alias(
        name=document.get("name", parsing.parse_string, ""),
        numa_policy=document.choose("numa_policy", PCI_NUMA_POLICIES, LEGACY) or LEGACY,
        alternatives=(criteria,),
    )


def _combine(known: Alias, other: Alias, document: OptionDocument) -> Alias:
    if known.numa_policy != other.numa_policy:
        rule = f"alias {known.name} already has the policy {known.numa_policy}"
        raise document.invalid("numa_policy", rule)
    dev_type = known.alternatives[0].dev_type
    if other.alternatives[0].dev_type != dev_type:
        rule = f"alias {known.name} already has the type {dev_type}"
        raise document.invalid("device_type", rule)
    return Alias(
        name=known.name,
        numa_policy=known.numa_policy,
        alternatives=known.alternatives + other.alternatives,
    )
