"""Holds: what Nova's database says that an instance has on a node."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Literal

from nova import context as nova_context
from nova import exception, objects
from nova.compute import task_states, vm_states
from nova.objects import fields

from rtagent.model.assignment import Assignment, CellAssignment
from rtagent.model.base import Value
from rtagent.model.claim import PCPU, RESOURCE, Claim, Unit


def nova_topology(requested: Any, assignment: Assignment | None) -> Any:
    """Return the InstanceNUMATopology of what was assigned, or None.

    :param requested: the InstanceNUMATopology without host CPUs, or None.
    """
    if requested is None or assignment is None or not assignment.cells:
        return None
    policy = "emulator_threads_policy"
    return objects.InstanceNUMATopology(
        cells=[
            _nova_cell(cell, given)
            for cell, given in zip(requested.cells, assignment.cells, strict=True)
        ],
        emulator_threads_policy=getattr(requested, policy)
        if requested.obj_attr_is_set(policy)
        else None,
    )


def assignment(nova: Any) -> Assignment | None:
    """Return what an instance has, as its InstanceNUMATopology says."""
    if nova is None:
        return None
    return Assignment(cells=tuple(map(_cell, nova.cells)))


def fingerprint(given: Assignment | None, without: Collection[int] = ()) -> tuple[object, ...]:
    """Return by what an assignment is recognised: cells, host CPUs, memory.

    :param without: host CPUs that are left out.
    """
    return tuple(
        (cell.id, (cell.taken - cell.cpuset_kept).difference(without), cell.memory)
        for cell in (given.cells if given else ())
    )


def _nova_cell(requested: Any, given: CellAssignment) -> Any:
    """Make a cell, all of whose fields count as changed.

    Stored topologies say which fields are changed ones, and an object that is read later is saved
    again only then: the rollback of a live migration relies on that.
    """
    fields = {
        name: getattr(requested, name)
        for name in requested.fields
        if requested.obj_attr_is_set(name)
    }
    fields |= {
        "id": given.id,
        "pagesize": given.pagesize,
        "cpuset_reserved": set(given.cpuset_reserved) or None,
    }
    cell = objects.InstanceNUMACell(**fields)
    cell.cpu_pinning = dict(given.cpu_pinning) or None
    return cell


def _cell(nova: Any) -> CellAssignment:
    return CellAssignment(
        id=nova.id,
        memory=nova.memory,
        cpuset=frozenset(nova.cpuset),
        cpu_pinning={int(v): int(p) for v, p in (nova.cpu_pinning or {}).items()},
        cpuset_reserved=frozenset(nova.cpuset_reserved or ()),
        pagesize=nova.pagesize,
    )


#: The fields of a MigrationContext of a hold begin with this.
Prefix = Literal["old_", "new_"]


class Hold(Value, frozen=True, kw_only=True):
    """What an instance has on a node: as a guest of it, or at one end of a move.

    :ivar instance: Nova's. :ivar flavor: Nova's, of this hold. :ivar numa_topology: Nova's, or
        None.
    :ivar migration: Nova's, of a hold of a move; None: the guest is here.
    :ivar prefix: the end of the move, for a hold of a move.
    :ivar is_volume_backed: its root disk is a volume.
    """

    instance: Any
    flavor: Any
    numa_topology: Any
    migration: Any = None
    prefix: Prefix | None = None
    is_volume_backed: bool = False

    @property
    def resources(self) -> list[Any]:
        """The Resource objects that it has."""
        if self.prefix is None:
            return list(self.instance.resources or ())
        return list(of_context(self.instance, "resources", self.prefix) or ())

    @property
    def owner_id(self) -> str:
        """The instance's uuid."""
        return str(self.instance.uuid)

    @property
    def is_topology_known(self) -> bool:
        """Whether `numa_topology` is certain to be that of this hold.

        At the end of a live migration Nova drops the migration context before it writes the host or
        the end of the task. Until then the stored topology may be that of either end.
        """
        is_live = self.instance.task_state == task_states.MIGRATING
        return self.instance.migration_context is not None or not is_live

    @property
    def identifiers(self) -> frozenset[str]:
        """The identifiers of `resources`."""
        return frozenset(each.identifier for each in self.resources)

    @property
    def units(self) -> frozenset[Unit]:
        """Its host CPUs and resources. Nova's rows say which devices it has."""
        given = assignment(self.numa_topology)
        cpus = ((PCPU, str(cpu)) for cpu in (given.taken if given else ()))
        return frozenset(cpus) | {(RESOURCE, name) for name in self.identifiers}

    def matches(self, claim: Claim, without: Collection[Unit] = ()) -> bool:
        """Whether a claim has what the hold has, as far as that is known.

        :param without: units of the hold that the claim cannot have, because others have them.
        """
        amounts = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap")
        if any(getattr(claim.flavor, name) != getattr(self.flavor, name) for name in amounts):
            return False
        if not self.is_topology_known:
            return True
        cpus = [int(name) for kind, name in without if kind == PCPU]
        if fingerprint(claim.numa_topology) != fingerprint(assignment(self.numa_topology), cpus):
            return False
        # Nova's rows do not say which mediated devices it has.
        namespaces = {unit.identifier for unit in claim.resources if unit.parent_addr is None}
        if not namespaces <= self.identifiers:
            return False
        return all((RESOURCE, name) in without for name in self.identifiers - namespaces)


def end_here(instance: Any, migration: Any, host: str, nodename: str) -> Prefix:
    """Return which end of a move a node is. Of a move on one node it is the end that the instance
    is not at.
    """
    source = is_source(migration, host, nodename)
    if source and is_destination(migration, host, nodename):
        return "old_" if has_new_flavor(instance, migration) else "new_"
    return "old_" if source else "new_"


def is_source(migration: Any, host: str, nodename: str) -> bool:
    """Return whether a migration leaves a node."""
    return bool((migration.source_compute, migration.source_node) == (host, nodename))


def is_destination(migration: Any, host: str, nodename: str) -> bool:
    """Return whether a migration comes to a node."""
    return bool((migration.dest_compute, migration.dest_node) == (host, nodename))


def is_evacuated_to(migration: Any, host: str, nodename: str) -> bool:
    """Return whether a migration is an evacuation to a node that goes on."""
    kind, status = migration.migration_type, migration.status
    goes_on = (kind, status) == (fields.MigrationType.EVACUATION, "pre-migrating")
    return goes_on and is_destination(migration, host, nodename)


def has_new_flavor(instance: Any, migration: Any) -> bool:
    """Return whether an instance has the flavor of the end of its resize already.

    Nova writes the flavor and the topology together, and `instance_type_id` afterwards. True for
    an evacuation, whose migration has no old flavor.
    """
    return bool(instance.flavor.id != migration.old_instance_type_id)


def has_come(instance: Any, migrations: Iterable[Any], host: str, nodename: str) -> bool:
    """Return whether a node is the destination of one of the instance's listed migrations."""
    return any(
        each.instance_uuid == instance.uuid and is_destination(each, host, nodename)
        for each in migrations
    )


def has_new_topology(instance: Any) -> bool:
    """Return whether an instance has the cells and CPUs that its move has claimed."""
    claimed = of_context(instance, "numa_topology", "new_")
    return fingerprint(assignment(instance.numa_topology)) == fingerprint(assignment(claimed))


def move_of(instance: Any, migrations: Iterable[Any]) -> Any:
    """Return the migration of the instance's migration context; None: it is not among them."""
    context = instance.migration_context
    if context is None:
        return None
    return next((each for each in migrations if each.id == context.migration_id), None)


def reverted_move(context: Any, instance: Any) -> Any:
    """Return the migration of a resize that is reverted, while the instance is not back yet; None:
    there is none. Nova ends the migration first, and then brings the instance back.
    """
    if (
        instance.task_state != task_states.RESIZE_REVERTING
        or instance.old_flavor is None
        or instance.migration_context is None
    ):
        return None
    try:
        migration = objects.Migration.get_by_id(context, instance.migration_context.migration_id)
    except exception.MigrationNotFound:
        return None
    return migration if migration.status == "reverted" else None


def idle_instances(uuids: Collection[str], host: str, nodename: str) -> set[str]:
    """Return which of these instances Nova has on a node, as they are stored now, while it does not
    work on them. One that is deleted is on no node.
    """
    # Nova would leave out those that can be restored, and would not leave out deleted ones.
    filters = {"uuid": list(uuids), "deleted": False, "soft_deleted": True}
    instances = objects.InstanceList.get_by_filters(
        nova_context.get_admin_context(), filters, expected_attrs=[]
    )
    return {
        str(instance.uuid)
        for instance in instances
        if (instance.host, instance.node) == (host, nodename)
        and instance.task_state is None
        and instance.vm_state != vm_states.BUILDING
    }


def of_context(instance: Any, name: str, prefix: Prefix) -> Any:
    """Return what a migration context says of one end of the move; None: nothing."""
    context = instance.migration_context
    if context is None or f"{prefix}{name}" not in context:
        return None
    return getattr(context, f"{prefix}{name}")
