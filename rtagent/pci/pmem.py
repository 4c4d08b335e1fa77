"""Persistent memory: namespaces grouped by labels, and flavors that request labels."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import os_resource_classes
from msgspec.structs import replace

from rtagent.errors import ConfigError, InvalidPciRequest
from rtagent.model.assignment import AssignedResource, PmemNamespace, ResourceInventory
from rtagent.model.claim import Claim
from rtagent.model.node_state import NodeState
from rtagent.model.request import Flavor

OPTION = "pmem_namespaces"
EXTRA_SPEC = "hw:pmem"
_LABEL = re.compile(r"[A-Za-z0-9_]+")


def resource_class(label: str) -> str:
    """Return the resource class of the namespaces with a label, named as in Nova."""
    return str(os_resource_classes.normalize_name(f"PMEM_NAMESPACE_{label}"))


#: The beginning of the resource class of every label.
CLASS_PREFIX = resource_class("")


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
            rule = "must be LABEL:namespace[|namespace], with letters, digits and _ in the label"
            raise _error(value, rule)
        repeated = [name for name, number in Counter(names).items() if number > 1 or name in seen]
        if repeated:
            raise _error(value, f"namespace {repeated[0]} is listed twice")
        seen.update(names)
        by_class.setdefault(resource_class(label), []).extend(names)
    return tuple(
        ResourceInventory(provider="", resource_class=name, identifiers=tuple(namespaces))
        for name, namespaces in by_class.items()
    )


def present_inventories(
    configured: Sequence[ResourceInventory],
    recorded: Sequence[ResourceInventory],
    seen: Sequence[PmemNamespace] | None,
) -> tuple[ResourceInventory, ...]:
    """Return the configured inventories with only those namespaces that the host has.

    :param recorded: the inventories as of the last time that the host's namespaces were listed.
    :param seen: the host's namespaces; None: they could not be listed now.
    """
    if seen is None:
        names = {name for each in recorded for name in each.identifiers}
        known = {each.name: each for inventory in recorded for each in inventory.namespaces}
    else:
        known = {each.name: each for each in seen}
        names = set(known)
    return tuple(_present(each, names, known) for each in configured)


def missing_namespaces(
    configured: Sequence[ResourceInventory], seen: Iterable[PmemNamespace], held: Collection[str]
) -> tuple[str, ...]:
    """Return the names of configured namespaces that the host does not have and no claim has.

    :param held: identifiers of resources that claims have.
    """
    present = {each.name for each in seen}
    return tuple(
        name
        for each in configured
        for name in each.identifiers
        if name not in present and name not in held
    )


def missing_error(names: Sequence[str]) -> ConfigError:
    """Return the error that the host does not have these configured namespaces."""
    return _error(
        ", ".join(names),
        "this host does not have it, or not in mode devdax, or its name is not unique: `ndctl list"
        " -X` shows the namespaces. Create it, or correct the option",
    )


def assigned_namespaces(resources: Iterable[AssignedResource]) -> Mapping[str, AssignedResource]:
    """Return the persistent memory namespaces among these resources, by name."""
    return {
        each.identifier: each for each in resources if each.resource_class.startswith(CLASS_PREFIX)
    }


def with_namespaces(claim: Claim, state: NodeState) -> Claim:
    """Return a claim with its namespaces as the host has them now, because the path of a device may
    be another one since the host was started. A namespace that is gone stays as it was.
    """
    if all(each.namespace is None for each in claim.resources):
        return claim
    now = {each.name: each for pool in state.resource_inventories for each in pool.namespaces}
    resources = tuple(
        each
        if each.namespace is None
        else replace(each, namespace=now.get(each.identifier, each.namespace))
        for each in claim.resources
    )
    return replace(claim, resources=resources)


def pmem_request(flavor: Flavor) -> dict[str, int]:
    """Parse ``hw:pmem`` into the number of namespaces by resource class.

    Empty labels have no effect (Nova's rule).

    :raises InvalidPciRequest: the extra spec is not a list of labels.
    """
    text = flavor.extra_specs.get(EXTRA_SPEC, "")
    labels = list(filter(None, map(str.strip, text.split(","))))
    if not all(_LABEL.fullmatch(label) for label in labels):
        raise InvalidPciRequest(where=EXTRA_SPEC, value=text, rule="must be label[,label]")
    return dict(Counter(map(resource_class, labels)))


def _present(
    configured: ResourceInventory, names: Collection[str], known: Mapping[str, PmemNamespace]
) -> ResourceInventory:
    identifiers = tuple(name for name in configured.identifiers if name in names)
    return replace(
        configured,
        identifiers=identifiers,
        namespaces=tuple(known[name] for name in identifiers if name in known),
    )


def _error(value: str, rule: str) -> ConfigError:
    return ConfigError(group="libvirt", option=OPTION, value=value, rule=rule)
