"""Which claims belong to what Nova's database says.

Tests for `tests.nova.runner`, which need no service.
"""

from __future__ import annotations

import unittest
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace
from nova.context import get_admin_context
from nova.tests.unit.fake_instance import fake_instance_obj

from rtagent.model.assignment import AssignedResource
from rtagent.model.claim import Claim
from rtagent.model.guest import AdoptRequest
from rtagent.model.node_state import NodeState
from rtagent.model.owners import main_claims
from rtagent.nova.holds import Hold, is_evacuated_to
from rtagent.nova.reconciliation import reconcile
from tests.support.agents import Agent, facts
from tests.support.hosts import uid

HOST, NODE = "compute1", "node1"
#: What is read with an instance.
ATTRIBUTES = ("system_metadata", "numa_topology", "flavor", "migration_context", "resources")


class FixedNode:
    """A node whose claims stay.

    :ivar released: the claims that were to be released. :ivar calls: what was to be released, and
        adopted in which role, with the owners.
    """

    has_cells = False

    def __init__(self, state: NodeState) -> None:
        self.state = state
        self.released: list[Claim] = []
        self.calls: list[tuple[str, str]] = []

    def mains(self, owner_id: str) -> tuple[Claim, ...]:
        return main_claims(self.state.claims_of(owner_id))

    def release(self, owner_id: str, claims: Sequence[Claim] | None = None) -> None:
        self.released += claims or ()
        if claims is None:
            self.calls.append(("release", owner_id))

    def adopt(self, request: AdoptRequest) -> None:
        self.calls.append((request.role, request.instance.uuid))

    def settle(self, claim: Claim) -> None:
        """Do nothing."""


class HoldTest(unittest.TestCase):
    """Instances and migrations as Nova stores them."""

    def test_newest_of_two_claims_that_are_alike_is_at_the_destination(self) -> None:
        agent = Agent()
        old = agent.run()
        new = agent.claim_move(facts("migration"))
        instance = SimpleNamespace(
            uuid=old.owner_id, task_state=None, migration_context=None, resources=None
        )
        for prefix, other in ((None, new), ("old_", new), ("new_", old)):
            node: Any = FixedNode(agent.state)
            hold = Hold(instance=instance, flavor=old.flavor, numa_topology=None, prefix=prefix)
            reconcile(node, [hold])
            self.assertEqual([other.uuid], [claim.uuid for claim in node.released])

    def test_claim_is_that_of_a_hold_only_with_its_disk_and_its_namespaces(self) -> None:
        """Of mediated devices Nova's rows say nothing."""
        claim = Agent().run()
        instance = SimpleNamespace(
            uuid=claim.owner_id, task_state=None, migration_context=None, resources=None
        )
        hold = Hold(instance=instance, flavor=claim.flavor, numa_topology=None)
        mdev = AssignedResource(resource_class="VGPU", identifier="m", parent_addr="0000:81:00.0")
        self.assertTrue(hold.matches(replace(claim, resources=(mdev,))))
        namespace = AssignedResource(resource_class="CUSTOM_PMEM_NAMESPACE_4GB", identifier="ns_0")
        self.assertFalse(hold.matches(replace(claim, resources=(namespace,))))
        for name in ("ephemeral_gb", "swap"):
            flavor = replace(claim.flavor, **{name: 1})
            self.assertFalse(hold.matches(replace(claim, flavor=flavor)), name)

    def test_what_is_gone_is_released_first_and_a_guest_comes_before_the_end_of_a_move(
        self,
    ) -> None:
        """Each may have a host CPU that the next one has now."""
        agent = Agent()
        gone = agent.run()
        node: Any = FixedNode(agent.state)
        context = get_admin_context()
        leaving, coming, guest = (
            fake_instance_obj(context, expected_attrs=ATTRIBUTES, uuid=uid(number))
            for number in (1, 2, 3)
        )
        holds = [
            Hold(instance=instance, flavor=instance.flavor, numa_topology=None, prefix=prefix)
            for instance, prefix in ((leaving, "old_"), (coming, "new_"), (guest, None))
        ]
        reconcile(node, holds)
        self.assertEqual(("release", gone.owner_id), node.calls.pop(0))
        adopted = [("dest", guest.uuid), ("source", leaving.uuid), ("dest", coming.uuid)]
        self.assertEqual(adopted, node.calls)

    def test_evacuation_that_has_ended_is_not_one_to_a_node(self) -> None:
        for status, goes_on in (("pre-migrating", True), ("done", False), ("error", False)):
            migration = SimpleNamespace(
                migration_type="evacuation", status=status, dest_compute=HOST, dest_node=NODE
            )
            self.assertEqual(goes_on, is_evacuated_to(migration, HOST, NODE))
