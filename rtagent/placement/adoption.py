"""Adoption: this node's providers that another publisher made, and its provider of shared disk.

``nova-compute`` names the providers of devices as this agent does, but their uuids are random. They
keep these uuids, and so their allocations. What was found is kept in a file, so that it is in force
from the start of the process, even if Placement is down then.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
import os_traits
from msgspec.structs import replace

from rtagent.model.base import Value
from rtagent.model.mem_encryption import MODELS, provider_suffix
from rtagent.model.node import Node
from rtagent.model.node_state import NodeState
from rtagent.model.policy import PlacementPolicy, Policy
from rtagent.model.provider_names import provider_name, provider_uuid
from rtagent.placement.provider import CUSTOM, Contents, CurrentProvider, write_document

NAME = "placement-adopted.json"

#: The end of the name of a provider of a PCI device, of one of mediated devices, and of one of
#: contexts for the encryption of memory.
_SUFFIX = re.compile(
    r"[0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-7]"
    r"|pci_[0-9a-f]{4,8}_[0-9a-f]{2}_[0-9a-f]{2}_[0-7]"
    rf"|{'|'.join(map(provider_suffix, MODELS))}"
)
#: Traits of the providers that nova-compute made.
_OF_NOVA = frozenset({os_traits.OWNER_NOVA, os_traits.COMPUTE_MANAGED_PCI_DEVICE})
_ROOT_OF_NOVA = frozenset({os_traits.OWNER_NOVA, os_traits.COMPUTE_NODE})
_OWNERS = "OWNER_"
#: The beginning of the resource classes of persistent memory.
_PMEM = "CUSTOM_PMEM_NAMESPACE_"


class Adoption(Value, frozen=True, kw_only=True):
    """What was found in Placement about the tree of a node.

    :ivar node: the node's uuid. :ivar children: uuids of adopted providers, by suffix (see
        `provider_names`).
    :ivar disk_provider: the uuid of the provider that shares disk with this host, or None.
    """

    node: str
    children: Mapping[str, str] = {}
    disk_provider: str | None = None

    def applied_to(self, policy: Policy) -> Policy:
        """Return the policy with this adoption in force."""
        placement = replace(
            policy.placement, adopted=self.children, disk_provider=self.disk_provider
        )
        return replace(policy, placement=placement)


_decode = msgspec.json.Decoder(Adoption).decode


def adoption_of(state: NodeState) -> Adoption:
    """Return the adoption that is in force."""
    policy = state.policy.placement
    return Adoption(
        node=state.node.uuid, children=policy.adopted, disk_provider=policy.disk_provider
    )


class AdoptionFile:
    """The adoption of a node, in a file of the state directory that only this process writes."""

    def __init__(self, state_path: str | Path) -> None:
        self._path = Path(state_path) / NAME

    def read(self, node_uuid: str) -> Adoption:
        """Return the adoption of this node; an empty one if there is none, or it cannot be read.

        It is found again in Placement before anything is published.
        """
        try:
            found = _decode(self._path.read_bytes())
        except (OSError, msgspec.MsgspecError):
            return Adoption(node=node_uuid)
        return found if found.node == node_uuid else Adoption(node=node_uuid)

    def write(self, adoption: Adoption) -> None:
        """Replace the file, durably. :raises PlacementError: it cannot be written."""
        write_document(self._path, adoption)


class Child(Value, frozen=True, kw_only=True):
    """A child of this node's root whose name is that of a device."""

    suffix: str
    uuid: str
    name: str


def device_children(node: Node, listing: Iterable[Mapping[str, object]]) -> tuple[Child, ...]:
    """Return the children of the root that have the name of a device.

    :param listing: the providers of the node's tree, as Placement lists them.
    """
    prefix = provider_name(node, "") + "_"
    found = (
        Child(suffix=name.removeprefix(prefix), uuid=str(each["uuid"]), name=name)
        for each in listing
        for name in [str(each["name"])]
        if each["parent_provider_uuid"] == node.uuid and name.startswith(prefix)
    )
    return tuple(child for child in found if _SUFFIX.fullmatch(child.suffix))


def can_adopt(traits: frozenset[str], *, wanted: bool) -> bool:
    """Whether a provider with these traits may become this agent's.

    A provider of another service (``OWNER_CYBORG``) may not. A provider that the agent does not
    want may, if it was nova-compute's: no other service withdraws it.
    """
    others = any(each.startswith(_OWNERS) and each not in _OF_NOVA for each in traits)
    return not others and (wanted or bool(traits & _OF_NOVA))


def adopted_contents(current: CurrentProvider, *, root: bool) -> Contents:
    """Return what the agent owns of an adopted provider, so that it withdraws what is not true.

    On a child these are all inventories and the standard traits. On a root that nova-compute made
    they are inventories of standard classes and of persistent memory; `ROOT_EXCLUSIVE` has the
    traits. Everything else with the prefix CUSTOM_ belongs to the client that has set it.
    """
    if root:
        by_nova = bool(current.traits & _ROOT_OF_NOVA)
        names = (each for each in current.inventories if by_nova and _is_of_nova(each))
        return Contents(classes=frozenset(names))
    standard = frozenset(trait for trait in current.traits if not trait.startswith(CUSTOM))
    return Contents(classes=frozenset(current.inventories), traits=standard)


def _is_of_nova(resource_class: str) -> bool:
    """Whether nova-compute sets inventories of the class on a root."""
    return not resource_class.startswith(CUSTOM) or resource_class.startswith(_PMEM)


def adopt(node: Node, known: Adoption, present: Iterable[Child], own: Iterable[Child]) -> Adoption:
    """Return the adoption after Placement was read.

    :param known: the one before. :param present: all children with names of devices.
    :param own: those of them that are this agent's, or become it.
    """
    names = {child.suffix for child in present}
    derived = PlacementPolicy()
    absent = {suffix: uuid for suffix, uuid in known.children.items() if suffix not in names}
    found = {
        child.suffix: child.uuid
        for child in own
        if child.uuid != provider_uuid(node, derived, child.suffix)
    }
    return replace(known, children={**absent, **found})
