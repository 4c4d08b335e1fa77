"""Persistent memory: namespaces grouped by labels, and flavors that request labels."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import os_resource_classes

from rtagent.errors import ConfigError, InvalidPciRequest
from rtagent.model.assigned_resources import ResourceInventory
from rtagent.model.flavor import Flavor

OPTION = "pmem_namespaces"
EXTRA_SPEC = "hw:pmem"
_LABEL = re.compile(r"[A-Za-z0-9_]+")


def resource_class(label: str) -> str:
    """Return the resource class of the namespaces with a label, named as in Nova."""
    return str(os_resource_classes.normalize_name(f"PMEM_NAMESPACE_{label}"))


def pmem_inventories(values: Sequence[str]) -> tuple[ResourceInventory, ...]:
    """Parse ``[libvirt] pmem_namespaces``; each value is ``LABEL:namespace[|namespace]``.

    :raises ConfigError: names the value and the rule.
    """
    by_class: dict[str, list[str]] = {}
    seen: set[str] = set()
    for value in values:
        label, _, rest = (part.strip() for part in value.partition(":"))
        names = [name.strip() for name in rest.split("|")]
        if not _LABEL.fullmatch(label) or not all(names):
            raise _error(value, "must be LABEL:namespace[|namespace]")
        repeated = [name for name, number in Counter(names).items() if number > 1 or name in seen]
        if repeated:
            raise _error(value, f"namespace {repeated[0]} is listed twice")
        seen.update(names)
        by_class.setdefault(resource_class(label), []).extend(names)
    return tuple(
        ResourceInventory(provider="", resource_class=name, identifiers=tuple(namespaces))
        for name, namespaces in by_class.items()
    )


def pmem_request(flavor: Flavor) -> dict[str, int]:
    """Parse ``hw:pmem`` into the number of namespaces by resource class.

    :raises InvalidPciRequest: the extra spec is not a list of labels.
    """
    text = flavor.extra_specs.get(EXTRA_SPEC, "")
    labels = [label.strip() for label in text.split(",")] if text else []
    if not all(_LABEL.fullmatch(label) for label in labels):
        raise InvalidPciRequest(where=EXTRA_SPEC, value=text, rule="must be label[,label]")
    return dict(Counter(map(resource_class, labels)))


def _error(value: str, rule: str) -> ConfigError:
    return ConfigError(group="libvirt", option=OPTION, value=value, rule=rule)
