"""What provider files add to the tree of this host. Pure.

The rules are Nova's. An entry for a provider by its uuid or its name replaces the one for
`$COMPUTE_NODE`. An entry for a provider that is not in the tree has no effect until it is there.
Only names that the agent does not publish itself can be added.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from rtagent.errors import ProviderFileError
from rtagent.model.base import Value
from rtagent.model.node import Node
from rtagent.model.node_state import NodeState
from rtagent.model.policy import (
    COMPUTE_NODE,
    AdditionalInventory,
    PlacementPolicy,
    Policy,
    ProviderEntry,
    ProviderFiles,
)
from rtagent.model.printable import printable
from rtagent.placement.devices import (
    device_providers,
    encryption_providers,
    resource_providers,
    root_resources,
)
from rtagent.placement.provider import RATIO_DIGITS, InventoryRecord, Provider

#: The suffix of the root provider.
ROOT = ""


class Offers(Value, frozen=True, kw_only=True):
    """What the files add to this host.

    :ivar entries: by the suffix of the provider.
    :ivar absent: entries for providers that are not in the tree.
    :ivar mistakes: what contradicts this host. The agent's own inventories take precedence, and so
        does an entry with a uuid over one with a name.
    """

    entries: Mapping[str, ProviderEntry] = {}
    absent: tuple[ProviderEntry, ...] = ()
    mistakes: tuple[ProviderFileError, ...] = ()

    def added_to(self, policy: Policy) -> Policy:
        """Return the policy with these offers."""
        inventories = tuple(
            replace(inventory, suffix=suffix)
            for suffix, entry in sorted(self.entries.items())
            for inventory in sorted(entry.inventories, key=lambda each: each.resource_class)
        )
        placement = replace(
            policy.placement,
            additional=inventories,
            additional_traits={
                key: each.traits for key, each in self.entries.items() if each.traits
            },
            additional_by={key: each.file for key, each in self.entries.items()},
        )
        return replace(policy, placement=placement)


def with_offers(state: NodeState, files: ProviderFiles) -> NodeState:
    """Return the state with what the files add to the node in its policy."""
    return replace(state, policy=resolve(files, state).added_to(state.policy))


def resolve(files: ProviderFiles, state: NodeState) -> Offers:
    """Return what the files add to a node."""
    if not files.entries:
        return Offers()
    node = state.node
    names = {node.uuid: ROOT, node.hypervisor_hostname: ROOT, COMPUTE_NODE: ROOT}
    pmem = frozenset(each.resource_class for each in state.policy.pci.pmem)
    owned = {ROOT: pmem | root_resources(state).keys()}
    if any(entry.identification not in names for entry in files.entries):
        children = (device_providers, resource_providers, encryption_providers)
        for child in (each for providers in children for each in providers(state)):
            suffix = provider_suffix(node, child)
            names |= {child.uuid: suffix, child.name: suffix}
            owned[suffix] = frozenset(child.inventories)
    return _resolved(sorted(files.entries, key=_precedence), names, owned)


def extended(provider: Provider, node: Node, policy: PlacementPolicy) -> Provider:
    """Return a provider of a node with what the files add to it."""
    suffix = provider_suffix(node, provider)
    added = {
        each.resource_class: _record(each) for each in policy.additional if each.suffix == suffix
    }
    traits = policy.additional_traits.get(suffix, frozenset())
    return replace(
        provider, inventories={**added, **provider.inventories}, traits=provider.traits | traits
    )


def provider_suffix(node: Node, provider: Provider) -> str:
    """Return the suffix of a provider of a node, see `rtagent.model.provider_names`."""
    if provider.parent is None:
        return ROOT
    return provider.name.removeprefix(f"{node.hypervisor_hostname}_")


def _resolved(
    entries: Sequence[ProviderEntry], names: Mapping[str, str], owned: Mapping[str, frozenset[str]]
) -> Offers:
    """:param entries: in the order of their precedence. :param names: suffixes by uuid and name.
    :param owned: the resource classes that the agent publishes itself, by suffix.
    """
    found: dict[str, ProviderEntry] = {}
    absent: list[ProviderEntry] = []
    mistakes: list[ProviderFileError] = []
    for entry in entries:
        suffix = names.get(entry.identification)
        if suffix is None:
            absent.append(entry)
        elif suffix not in found:
            found[suffix] = entry
        elif entry.uuid != COMPUTE_NODE:
            mistakes.append(_error(entry, _twice(entry, found[suffix])))
    for suffix, entry in found.items():
        mistakes += _conflicts(entry, owned[suffix])
        found[suffix] = _without(entry, owned[suffix])
    return Offers(entries=found, absent=tuple(absent), mistakes=tuple(mistakes))


def _precedence(entry: ProviderEntry) -> int:
    return 2 if entry.uuid == COMPUTE_NODE else int(entry.uuid is None)


def _conflicts(entry: ProviderEntry, owned: frozenset[str]) -> Iterator[ProviderFileError]:
    for name in sorted(each.resource_class for each in entry.inventories):
        if name in owned:
            shown = printable(entry.identification)
            yield _error(entry, f"the agent itself publishes {name} of provider {shown}: remove it")


def _without(entry: ProviderEntry, owned: frozenset[str]) -> ProviderEntry:
    kept = tuple(each for each in entry.inventories if each.resource_class not in owned)
    return replace(entry, inventories=kept)


def _twice(entry: ProviderEntry, other: ProviderEntry) -> str:
    return (
        f"provider {printable(entry.identification)} is described a second time, as"
        f" {printable(other.identification)} in {other.origin}"
    )


def _error(entry: ProviderEntry, rule: str) -> ProviderFileError:
    return ProviderFileError(
        group="compute",
        option="provider_config_location",
        file=entry.file,
        path=entry.path,
        rule=rule,
    )


def _record(inventory: AdditionalInventory) -> InventoryRecord:
    return InventoryRecord(
        total=inventory.total,
        reserved=inventory.reserved,
        min_unit=inventory.min_unit,
        max_unit=inventory.max_unit,
        step_size=inventory.step_size,
        allocation_ratio=float(RATIO_DIGITS.create_decimal(inventory.allocation_ratio)),
    )
