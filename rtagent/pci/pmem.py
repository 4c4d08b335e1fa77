"""Persistent memory: namespaces under labels, and flavors that ask for labels."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from rtagent.errors import ConfigError, InvalidPciRequest
from rtagent.model.flavor import Flavor
from rtagent.model.specific import SpecificInventory

OPTION = "pmem_namespaces"
EXTRA_SPEC = "hw:pmem"
_PREFIX = "CUSTOM_PMEM_NAMESPACE_"
_LABEL = re.compile(r"[A-Za-z0-9_]+")


def resource_class(label: str) -> str:
    """Of the namespaces under a label."""
    return _PREFIX + label.upper()


def pmem_inventories(values: Sequence[str]) -> tuple[SpecificInventory, ...]:
    """``[libvirt] pmem_namespaces``: ``LABEL:namespace[|namespace]``, each.

    :raises ConfigError: naming the value and the rule.
    """
    by_class: dict[str, list[str]] = {}
    seen: set[str] = set()
    for value in values:
        label, _, rest = (part.strip() for part in value.partition(":"))
        names = [name.strip() for name in rest.split("|")]
        if not _LABEL.fullmatch(label) or not all(names):
            raise _wrong(value, "must be LABEL:namespace[|namespace]")
        twice = [name for name, number in Counter(names).items() if number > 1 or name in seen]
        if twice:
            raise _wrong(value, f"namespace {twice[0]} is there twice")
        seen.update(names)
        by_class.setdefault(resource_class(label), []).extend(names)
    return tuple(
        SpecificInventory(provider="", resource_class=name, identifiers=tuple(namespaces))
        for name, namespaces in by_class.items()
    )


def pmem_request(flavor: Flavor) -> dict[str, int]:
    """``hw:pmem``: how many namespaces of each class.

    :raises InvalidPciRequest: it is no list of labels.
    """
    text = flavor.extra_specs.get(EXTRA_SPEC, "")
    labels = [label.strip() for label in text.split(",")] if text else []
    if not all(_LABEL.fullmatch(label) for label in labels):
        raise InvalidPciRequest(where=EXTRA_SPEC, value=text, rule="must be label[,label]")
    return dict(Counter(map(resource_class, labels)))


def _wrong(value: str, rule: str) -> ConfigError:
    return ConfigError(group="libvirt", option=OPTION, value=value, rule=rule)
