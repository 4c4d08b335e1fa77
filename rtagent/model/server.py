"""Servers, and operations on them, as a conductor records them; requests for hosts and answers."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta

from rtagent.model import request
from rtagent.model.base import (
    RESOURCE_NAME,
    SUFFIX,
    UUIDS,
    Count,
    Document,
    Entries,
    Items,
    Members,
    Name,
    Positive,
    Text,
    Uuid,
    Value,
)
from rtagent.model.migration import MigrationFacts

#: The operation for which a host is searched: a build, or a type of move.
Purpose = Literal["build", "resize", "migration", "live-migration", "evacuation", "unshelve"]

#: One or more uuids joined by commas.
Uuids = Annotated[str, Meta(pattern=UUIDS, max_length=65535)]
#: The name of a resource class or of a trait.
ResourceName = Annotated[str, Meta(pattern=RESOURCE_NAME, max_length=255)]
#: The suffix of a granular group in Placement.
Suffix = Annotated[str, Meta(pattern=SUFFIX, max_length=64)]

#: A hint is a text, or a list of texts. A query of JsonFilter is a text. Null is no hint.
Hint = Text | Items[Text] | None


class ImageRequest(request.Image, frozen=True, kw_only=True):
    """The image of a request.

    :ivar min_ram: MB. :ivar min_disk: GB. :ivar disk_format: ``qcow2``, for example.
    """

    id: Name | None = None
    disk_format: Name | None = None
    min_ram: Count = 0
    min_disk: Count = 0


class Destination(Document, frozen=True, kw_only=True):
    """The destination that an operator or a tenant requested (Nova's ``requested_destination``).

    :ivar aggregates: uuids; each element is one or more uuids joined by commas, of which the host
        needs one. It needs one of every element.
    :ivar forbidden_aggregates: uuids of which the host must have none.
    """

    host: Name | None = None
    node: Name | None = None
    aggregates: Items[Uuids] = ()
    forbidden_aggregates: Items[Uuid] = ()


class GroupRules(Document, frozen=True, kw_only=True):
    """:ivar max_server_per_host: of an anti-affinity group."""

    max_server_per_host: Positive = 1


class InstanceGroup(Document, frozen=True, kw_only=True):
    """The server group of the instances.

    :ivar hosts: where its members are, as the caller knows.
    :ivar members: uuids of its instances.
    """

    uuid: Uuid | None = None
    policy: Literal["affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"]
    rules: GroupRules = GroupRules()
    hosts: Members[Name] = ()
    members: Members[Uuid] = ()


class RequestGroup(Document, frozen=True, kw_only=True):
    """A granular group of a request to Placement, for example of a port with a bandwidth.

    :ivar requester_id: becomes the suffix of the group. :ivar resources: numbers by class.
    """

    requester_id: Suffix
    resources: Entries[ResourceName, Positive] = {}
    required_traits: Items[ResourceName] = ()
    forbidden_traits: Items[ResourceName] = ()
    in_tree: Uuid | None = None


class RequestSpec(Document, frozen=True, kw_only=True):
    """The request of one or more equal instances. Their number is that of the uuids in the call.

    :ivar purpose: a resize, for example, may select the host that the instance is on.
    :ivar is_bfv: the root disk is a volume (boot from volume), so it needs no local disk.
    :ivar ignore_hosts: never selected. :ivar force_hosts: only these, without filters.
    :ivar force_nodes: hypervisor host names; as `force_hosts`.
    :ivar requested_resources: of ports and other services.
    :ivar same_subtree: requester ids; the providers of the groups of each element are in one
        subtree, whose root is one of them.
    :ivar required_traits: traits that the root provider needs, besides those of the flavor.
    :ivar limits: passed on to the claim where the scheduler has none of its own.
    :ivar consumer_generation: the generation in Placement that the instance must have for its
        allocations to be written; 0: it has none; None: any.
    """

    flavor: request.Flavor
    image: ImageRequest = ImageRequest()
    purpose: Purpose = "build"
    project_id: Name | None = None
    user_id: Name | None = None
    os_type: Name | None = None
    is_bfv: bool = False
    availability_zone: Name | None = None
    pci_requests: Items[request.PciRequest] = ()
    extra_resource: request.ExtraResource = {}
    requested_resources: Items[RequestGroup] = ()
    same_subtree: Items[Items[Suffix]] = ()
    required_traits: Items[ResourceName] = ()
    forbidden_traits: Items[ResourceName] = ()
    ignore_hosts: Members[Name] = ()
    force_hosts: Members[Name] = ()
    force_nodes: Members[Name] = ()
    requested_destination: Destination | None = None
    instance_group: InstanceGroup | None = None
    scheduler_hints: Entries[Name, Hint] | None = None
    network_metadata: request.NetworkMetadata | None = None
    limits: request.Limits = request.Limits()
    consumer_generation: Count | None = None

    def hint(self, name: str) -> tuple[str, ...]:
        """Return the values of a hint; empty: there is no such hint, or none with a value."""
        value = (self.scheduler_hints or {}).get(name) or ()
        values = (value,) if isinstance(value, str) else value
        return tuple(each for each in values if each)


#: States of a server, with Nova's names.
BUILDING, ACTIVE, STOPPED, RESIZED = "building", "active", "stopped", "resized"
SHELVED_OFFLOADED, ERROR, DELETED = "shelved_offloaded", "error", "deleted"

#: ``running``: not finished, whether or not a process works on it. ``failed``: it was undone.
OperationState = Literal["running", "done", "failed"]


class Place(Value, frozen=True, kw_only=True):
    """A claim of a server on a host.

    :ivar node_uuid: of the node; every call for the claim names it.
    :ivar claim: the claim as the agent returned it last.
    """

    host: str
    node_uuid: str
    claim: Mapping[str, Any]


class ServerMove(Value, frozen=True, kw_only=True):
    """A resize or cold migration that waits to be confirmed or reverted.

    :ivar source: where the server was. :ivar spec: its request before the move.
    :ivar was: its vm_state before the move.
    """

    migration: MigrationFacts
    source: Place
    spec: RequestSpec
    was: str


class Server(Value, frozen=True, kw_only=True):
    """A server.

    :ivar spec: the request that it was built from, with its current flavor.
    :ivar place: its claim on the host that it is on; None: it is on no host.
    :ivar move: the move that waits to be confirmed or reverted.
    :ivar document: a domain document with its disks and networks; None: a minimal one is made.
    :ivar consumer_generation: what its consumer in Placement has is of a later generation: a
        conductor that lost an operation of the server may still write with this or an earlier one.
    :ivar operation_uuid: the operation that runs on it. There is at most one.
    """

    uuid: str
    name: str
    spec: RequestSpec
    vm_state: str
    created_at: datetime
    updated_at: datetime
    task_state: str | None = None
    place: Place | None = None
    move: ServerMove | None = None
    document: str | None = None
    consumer_generation: int = 0
    operation_uuid: str | None = None

    @property
    def runs(self) -> bool:
        """Whether its guest should run."""
        return self.vm_state in (ACTIVE, RESIZED) and not (self.move and self.move.was == STOPPED)


class ServerOperation(Value, frozen=True, kw_only=True):
    """An operation on a server, and how far it is.

    :ivar kind: names the table of steps. :ivar step: the step that was begun last.
    :ivar forward: False: it is being undone, from ``step`` backwards.
    :ivar attempt: counts hosts that were tried, from 1.
    :ivar progress: the results of the steps, see `rtagent.conductor.run`.
    :ivar error: why it stopped, is being undone, or has failed, as a document; None: no error.
    :ivar owner: the conductor that works on it; None: no conductor does.
    :ivar epoch: counts the owners. :ivar beat: a counter that the owner increases.
    """

    uuid: str
    server_uuid: str
    kind: str
    step: str
    created_at: datetime
    updated_at: datetime
    state: OperationState = "running"
    forward: bool = True
    attempt: int = 1
    progress: Mapping[str, Any] = {}
    error: Mapping[str, Any] | None = None
    owner: str | None = None
    epoch: int = 1
    beat: int = 0


class Selection(Value, frozen=True, kw_only=True):
    """A host for one instance.

    With Placement, the scheduler has written the allocations of a selected host for the instance.
    Those of an alternate are the caller's to write. Before a resize or a migration, the caller
    moves what the instance has at its source to the migration; an evacuation adds to it.

    :ivar provider_uuid: the node's uuid, which its root provider has, too.
    :ivar operation_id: the claim must be made with this operation id, so that the scheduler
        recognises it. Each alternate has its own.
    :ivar limits: what to pass to the claim.
    :ivar allocation_request: Placement's candidate, to be written for an alternate; None: without
        Placement. :ivar allocation_request_version: its microversion.
    :ivar allocations: and :ivar provider_mapping: for the claim; those that the scheduler wrote, or
        would write; None: without Placement.
    """

    host: str
    nodename: str
    provider_uuid: str
    operation_id: str
    limits: request.Limits = request.Limits()
    allocation_request: Mapping[str, Any] | None = None
    allocation_request_version: str | None = None
    allocations: request.Allocations | None = None
    provider_mapping: request.ProviderMapping = {}


class Selections(Value, frozen=True, kw_only=True):
    """:ivar selected: assumed there. :ivar alternates: hosts to try next, best first."""

    instance_uuid: str
    selected: Selection
    alternates: tuple[Selection, ...] = ()
