"""Contexts for the encryption of memory in a real Placement, as Nova's scheduler asks for them."""

import pytest
from msgspec.structs import replace

from rtagent import claims
from rtagent.model.mem_encryption import AMD_SEV, AMD_SEV_ES, provider_suffix
from rtagent.model.provider_names import provider_uuid
from tests.functional.placement.conftest import PATIENCE, MirroredNode
from tests.functional.placement.takeovers import Agent, NovaCompute
from tests.support.device_states import after, encrypted, orphan, running, sev_host
from tests.support.hosts import NOON, call, uid, with_claims

CLASS = "MEM_ENCRYPTION_CONTEXT"


class Host:
    """A node with two contexts of SEV and one of SEV-ES, and its mirror."""

    def __init__(self, node: MirroredNode) -> None:
        self.node = node
        node.state = replace(sev_host(), node=node.state.node)
        self.mirror = node.start()
        self.mirror.sync_now(PATIENCE)

    def provider(self, model: str) -> str:
        state = self.node.state
        return provider_uuid(state.node, state.policy.placement, provider_suffix(model))

    def offers(self, trait: str) -> set[str]:
        """The providers of a context that Placement offers for a guest with this trait."""
        wanted = f"resources=VCPU:1,{CLASS}:1&required={trait}&in_tree={self.node.uuid}"
        found = self.node.server.client().get(f"/allocation_candidates?{wanted}").json()
        return {
            uuid
            for each in found["allocation_requests"]
            for uuid, allocation in each["allocations"].items()
            if CLASS in allocation["resources"]
        }

    def allocate(self, model: str) -> int:
        resources = {self.node.uuid: {"VCPU": 1}, self.provider(model): {CLASS: 1}}
        return self.node.server.allocate(uid(), resources)


@pytest.fixture
def host(node: MirroredNode) -> Host:
    return Host(node)


def test_each_model_is_additional_by_its_trait(host):
    assert host.offers("HW_CPU_X86_AMD_SEV") == {host.provider(AMD_SEV)}
    assert host.offers("HW_CPU_X86_AMD_SEV_ES") == {host.provider(AMD_SEV_ES)}
    assert host.allocate(AMD_SEV_ES) == 204
    assert host.offers("HW_CPU_X86_AMD_SEV_ES") == set()
    assert host.offers("HW_CPU_X86_AMD_SEV") == {host.provider(AMD_SEV)}


def test_placement_offers_no_context_that_the_agent_would_refuse(host):
    state = host.node.state
    host.node.state = with_claims(state, (), (orphan(AMD_SEV_ES),), state.revision + 1)
    host.mirror.sync_now(PATIENCE)
    assert host.offers("HW_CPU_X86_AMD_SEV_ES") == set()
    refused = claims.instance_claim(host.node.state, call(), NOON, encrypted(AMD_SEV_ES))
    assert [each.available for each in refused.reasons] == [0]
    host.node.change(mem_encryption=())
    host.mirror.sync_now(PATIENCE)
    assert host.offers("HW_CPU_X86_AMD_SEV") == set()


@pytest.fixture
def agent(node: MirroredNode) -> Agent:
    agent = Agent(node)
    agent.state = replace(sev_host(), node=node.state.node)
    return agent


def claim_context(agent: Agent, owner: str) -> None:
    decision = claims.instance_claim(agent.state, call(), NOON, encrypted(owner=owner))
    agent.state, claim = after(agent.state, decision)
    agent.state = running(agent.state, claim)


def test_contexts_on_the_root_move_to_the_provider_of_the_model(node, agent):
    """nova-compute before 2025.2 had them on the root."""
    nova, guest = NovaCompute(node), uid()
    nova.root(("HW_CPU_X86_AMD_SEV",), **{CLASS: 9})
    nova.allocate(guest, root={"VCPU": 1, CLASS: 1})
    claim_context(agent, guest)
    agent.start()
    assert agent.mirror.error is None
    assert CLASS not in agent.inventories(node.uuid)
    assert "HW_CPU_X86_AMD_SEV" not in agent.traits(node.uuid)
    child = agent.children["amd_sev"]
    assert agent.allocations(guest) == {node.uuid: {"VCPU": 1}, child: {CLASS: 1}}
