"""What follows from the host's configuration for claims: the assignment of a guest that is placed
here, which follows from its flavor and image, too, and the uuids of providers. Pure.
"""

from collections.abc import Iterator
from datetime import datetime

from msgspec.structs import replace

from rtagent.allocation.kept_views import host_for_new_owners
from rtagent.allocation.requirements import local_disk_mb, numa_of
from rtagent.errors import InvalidFlavor
from rtagent.lifecycle.consequences import granted
from rtagent.lifecycle.transitions import event_of
from rtagent.model.assignment import Assignment
from rtagent.model.change import Call
from rtagent.model.claim import Claim
from rtagent.model.decision import Granted
from rtagent.model.node_state import NodeState
from rtagent.model.owners import main_claims
from rtagent.model.policy import Policy
from rtagent.model.provider_names import provider_uuid
from rtagent.model.request import Flavor, Image, Instance
from rtagent.model.usage import Usage
from rtagent.numa.cpu_policies import ISOLATE
from rtagent.numa.fit import completed
from rtagent.numa.host_cpus import with_idle_siblings
from rtagent.numa.requirements import NumaRequirements, numa_requirements
from rtagent.pci.placement_reporting import provider_of_device, provider_of_resource


def placed(state: NodeState, required: NumaRequirements, given: Assignment | None) -> Assignment:
    """Return the whole assignment of a guest: the one that a build would get which is given these
    cells.

    :param state: of a host that was observed.
    :param given: cells, memory, page sizes, vCPUs and host CPUs of the guest; the rest is not read.
    """
    cells = given.cells if given is not None else ()
    return completed(cells, required, host_for_new_owners(state))


def requirements_of(flavor: Flavor, image: Image) -> NumaRequirements:
    """Return the requirements of a guest that is here. If its flavor is invalid, the rules of
    another agent have allowed it, and the guest counts as one without extra specs.
    """
    try:
        return numa_of(flavor, image.properties)
    except InvalidFlavor:
        return numa_requirements(flavor.vcpus, flavor.memory_mb, {}, {})


def isolated(state: NodeState, required: NumaRequirements, assignment: Assignment) -> Assignment:
    """Return the assignment of a guest that is here, with idle thread siblings if it requires them.

    :param state: of a host that was observed.
    """
    if required.cpu_thread_policy != ISOLATE:
        return assignment
    assert state.topology is not None
    in_use = (*state.usage.numa.pinned, *state.usage.numa.kept)
    return with_idle_siblings(assignment, state.topology, state.policy.numa, in_use)


def usage_of(instance: Instance, assignment: Assignment) -> Usage:
    """Return what a guest that is here uses of the host as a whole."""
    dedicated = sum(len(cell.cpu_pinning) for cell in assignment.cells)
    return Usage(
        vcpus=max(0, instance.flavor.vcpus - dedicated),
        pcpus=assignment.pcpus,
        memory_mb=instance.flavor.memory_mb,
        disk_mb=local_disk_mb(instance),
    )


def follow_configuration(state: NodeState, call: Call, now: datetime) -> Granted:
    """Let every claim have the assignment that its guest gets when it is started again, on the same
    cells and host CPUs of its own. For a program whose driver makes guests from the configuration
    and not from their claims: a guest that runs with an earlier one differs until it is restarted.
    """
    reason = "the host's configuration has changed"
    events = (
        event_of(claim, "update", state, now, reason, numa_topology=assignment)
        for claim, assignment in _outdated(state)
    )
    return granted(state, call, now, *events)


def follows_configuration(state: NodeState) -> bool:
    """Return whether every claim has that assignment."""
    return next(_outdated(state), None) is None


def _outdated(state: NodeState) -> Iterator[tuple[Claim, Assignment]]:
    if state.topology is None:
        return
    for claim in main_claims(state.claims.values()):
        if not claim.quarantined:
            required = requirements_of(claim.flavor, claim.image)
            assignment = placed(state, required, claim.numa_topology)
            if assignment != claim.numa_topology:
                yield claim, assignment


def claims_with_new_providers(state: NodeState, policy: Policy, now: datetime) -> tuple[Claim, ...]:
    """Return the claims whose units have another provider under a policy than they record, because
    the policy adopts some.
    """
    after = replace(state, policy=policy)
    changed = ((claim, _with_providers(claim, after)) for claim in state.claims.values())
    return tuple(
        replace(new, updated_at=now, revision=state.revision + 1)
        for claim, new in changed
        if new != claim and not claim.quarantined
    )


def _with_providers(claim: Claim, state: NodeState) -> Claim:
    return replace(
        claim,
        resources=tuple(
            replace(unit, provider=provider_of_resource(state, unit.parent_addr))
            for unit in claim.resources
        ),
        pci=tuple(
            replace(device, provider=provider_of_device(state, device.address))
            for device in claim.pci
        ),
        quantities=tuple(
            replace(each, provider=provider_uuid(state.node, state.policy.placement, each.suffix))
            for each in claim.quantities
        ),
    )
