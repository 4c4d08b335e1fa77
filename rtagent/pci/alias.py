"""``[pci] alias``: the names under which flavors ask for devices."""

from __future__ import annotations

from collections.abc import Sequence

from rtagent.errors import PciInvalidAlias
from rtagent.model.alias import Alias, Aliases
from rtagent.model.device import DEV_TYPES, LEGACY, PCI_NUMA_POLICIES
from rtagent.model.wanted import Wanted
from rtagent.pci import words
from rtagent.pci.document import Document, documents

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
    # Nova allows it, with this one value, and so do files written for Nova; it says nothing.
    "capability_type",
)
CAPABILITY_TYPES = ("pci",)


def parse_aliases(values: Sequence[str]) -> Aliases:
    """The option's values by name; a name that is repeated has alternatives.

    :raises PciInvalidAlias: naming the index, the key and the rule.
    """
    aliases: dict[str, Alias] = {}
    for document in documents(OPTION, values, PciInvalidAlias):
        alias = _alias(document)
        known = aliases.get(alias.name)
        aliases[alias.name] = alias if known is None else _both(known, alias, document)
    return aliases


def _alias(document: Document) -> Alias:
    document.only(KEYS)
    document.choose("capability_type", CAPABILITY_TYPES, None)
    if "name" not in document.content:
        raise document.wrong("", "has no name")
    has_ids = "vendor_id" in document.content and "product_id" in document.content
    if not has_ids and "resource_class" not in document.content:
        raise document.wrong("", "needs vendor_id and product_id, or resource_class")
    wanted = Wanted(
        vendor_id=document.get("vendor_id", words.hex_id, None),
        product_id=document.get("product_id", words.hex_id, None),
        dev_type=document.choose("device_type", DEV_TYPES, None),
        resource_class=document.get("resource_class", words.resource_class, None),
        traits=document.get("traits", words.traits, frozenset()),
        live_migratable=document.get("live_migratable", words.boolean, None),
    )
    return Alias(
        name=document.get("name", words.string, ""),
        numa_policy=document.choose("numa_policy", PCI_NUMA_POLICIES, LEGACY) or LEGACY,
        alternatives=(wanted,),
    )


def _both(known: Alias, other: Alias, document: Document) -> Alias:
    if known.numa_policy != other.numa_policy:
        rule = f"alias {known.name} has the policy {known.numa_policy} already"
        raise document.wrong("numa_policy", rule)
    dev_type = known.alternatives[0].dev_type
    if other.alternatives[0].dev_type != dev_type:
        raise document.wrong("device_type", f"alias {known.name} has the type {dev_type} already")
    return Alias(
        name=known.name,
        numa_policy=known.numa_policy,
        alternatives=known.alternatives + other.alternatives,
    )
