"""A provider as Placement has it, read and proved to be ours."""

from __future__ import annotations

import msgspec

from rtagent.errors import PlacementError
from rtagent.placement.diff import Seen
from rtagent.placement.provider import Provider, Record
from rtagent.ports import PlacementAPI


def read(api: PlacementAPI, wanted: Provider) -> Seen | None:
    """The provider with the wanted one's uuid, or None when there is none.

    :raises PlacementError: another host has that uuid; the message names the remedy.
    """
    found = api.provider(wanted.uuid)
    if found is None:
        return None
    if found["name"] != wanted.name:
        raise _renamed(wanted, found["name"])
    # The inventories last: they are written most, and each request in between gives others time.
    traits = api.traits(wanted.uuid)
    inventories = api.inventories(wanted.uuid)
    return Seen(
        generation=inventories["resource_provider_generation"],
        traits_generation=traits["resource_provider_generation"],
        inventories=msgspec.convert(inventories["inventories"], dict[str, Record]),
        traits=frozenset(traits["traits"]),
    )


def taken(name: str, uuid: str, by: str, parent: str | None = None) -> PlacementError:
    """The error when another provider (`by`: its uuid) has the name of ours."""
    delete = f"openstack resource provider delete {by}"
    of_root = (
        f"If it is what an earlier installation of this host left behind, delete it ({delete}) or"
        " give this host its old identity back: that uuid in the file compute_id of state_path. If"
        " it is another host, one of the two must get another host name."
    )
    of_child = f"Whoever told of this host's devices before left it behind: delete it ({delete})."
    return PlacementError(
        f"Placement has a provider named {name} already, with uuid {by}; this node's is {uuid}."
        f" {of_root if parent is None else of_child}",
        provider_uuid=uuid,
        other_uuid=by,
    )


def _renamed(wanted: Provider, name: str) -> PlacementError:
    return PlacementError(
        f"Placement's provider {wanted.uuid} is named {name}, this node {wanted.name}. If the host"
        f" was renamed, rename the provider (openstack resource provider set --name {wanted.name}"
        f" {wanted.uuid}). If the file compute_id was copied from {name}, this host must get one of"
        " its own.",
        provider_uuid=wanted.uuid,
        other_name=name,
    )
