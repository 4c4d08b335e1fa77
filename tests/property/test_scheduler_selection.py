"""A selected host's agent always grants, and if no host is selected, no agent would."""

from decimal import Decimal

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rtagent import claims
from rtagent.errors import InvalidFlavor, RequestError
from rtagent.lifecycle.moves.destination import move_claim
from rtagent.model.decision import Granted
from rtagent.model.device import PciDevices
from rtagent.model.migration import MoveRequest, SourceFacts
from rtagent.model.node_state import NodeState
from rtagent.model.policy import NumaPolicy, PciPolicy, Policy
from rtagent.model.request import BuildRequest, Flavor, Instance
from rtagent.model.server import RequestSpec
from rtagent.scheduler.claim_template import claim_template
from rtagent.scheduler.errors import NoValidHost
from tests.support.host_states import host_state
from tests.support.hosts import NODE, NOON, call, uid
from tests.support.numa_hosts import HUGE, LARGE, cell, topology
from tests.support.pci_hosts import ALIASES, two_gpus_and_a_nic
from tests.support.reporting_agents import ReportingAgent, reported
from tests.support.scheduling import scheduler

#: 10,000 in a long run.
EXAMPLES = settings.default.max_examples * (5 if settings.default.max_examples > 100 else 1)
FILTERS = ("NUMATopologyFilter", "PciPassthroughFilter")

#: Extra specs of which a request has any.
EXTRA_SPECS = {
    "hw:cpu_policy": ["dedicated", "dedicated", "mixed", "shared"],
    "hw:cpu_dedicated_mask": ["0"],
    "hw:cpu_thread_policy": ["isolate", "require"],
    "hw:numa_nodes": ["1", "2"],
    "hw:mem_page_size": ["2MB", "large", "any", "1GB"],
    "hw:emulator_threads_policy": ["isolate"],
    "pci_passthrough:alias": ["vf:1", "vf:3", "gpu:1", "gpu:1,vf:2", "unknown:1"],
    "hw:pci_numa_affinity_policy": ["required", "preferred"],
    "resources:VGPU": ["1"],
    "resources:VCPU": ["3"],
}


@st.composite
def flavors(draw):
    """Draw a flavor: most often a plain one, or one with one or two extra specs."""
    names = draw(
        st.one_of(
            st.just([]),
            st.sampled_from([["hw:cpu_policy"], ["hw:mem_page_size"], ["pci_passthrough:alias"]]),
            st.just(["hw:cpu_policy", "pci_passthrough:alias"]),
            st.lists(st.sampled_from(sorted(EXTRA_SPECS)), min_size=1, max_size=3, unique=True),
        )
    )
    return Flavor(
        vcpus=draw(st.sampled_from([1, 2, 2, 3, 4, 8])),
        memory_mb=draw(st.sampled_from([64, 512, 1024, 2048, 5000])),
        root_gb=draw(st.sampled_from([0, 0, 0, 1, 20])),
        swap=draw(st.sampled_from([0, 0, 1])),
        extra_specs={name: draw(st.sampled_from(EXTRA_SPECS[name])) for name in names},
    )


@st.composite
def nodes(draw):
    """Draw a node, with guests."""
    cells = [
        cell(
            number, 2, 2, memory_mb=4096, huge=draw(st.sampled_from([{}, {LARGE: 512}, {HUGE: 2}]))
        )
        for number in range(draw(st.integers(1, 2)))
    ]
    there = topology(*cells)
    dedicated = draw(st.sampled_from([frozenset(), frozenset({2, 3}), there.cpus - {0, 1}]))
    numa = NumaPolicy(
        cpu_dedicated_set=dedicated or None,
        cpu_shared_set=draw(st.sampled_from([None, (there.cpus - dedicated) or None])),
        file_backed_memory_mb=draw(st.sampled_from([0, 0, 0, 2048])),
    )
    state = NodeState(
        node=NODE,
        policy=Policy(
            cpu_allocation_ratio=draw(st.sampled_from([Decimal(1), Decimal("1.5"), Decimal(4)])),
            ram_allocation_ratio=draw(st.sampled_from([Decimal(1), Decimal("1.1")])),
            reserved_memory_mb=draw(st.sampled_from([0, 500])),
            reserved_cpus=draw(st.sampled_from([0, 1])),
            numa=numa,
            pci=PciPolicy(aliases=draw(st.sampled_from([ALIASES, {}]))),
        ),
        topology=replace(there, disk_mb=draw(st.sampled_from([0, 50 * 1024, 50 * 1024]))),
        devices=PciDevices(draw(st.sampled_from([{}, two_gpus_and_a_nic()]))),
    )
    for flavor in draw(st.lists(flavors(), max_size=4)):
        state = with_guest(state, flavor)
    return state


def build(flavor, owner=None):
    """Return the request of a claim."""
    return BuildRequest(instance=Instance(uuid=owner or uid(), flavor=flavor))


def with_guest(state, flavor):
    """Return the node with this guest; unchanged, if it does not fit."""
    decision = decided(state, build(flavor), uid())
    return state.fold(decision.change) if isinstance(decision, Granted) else state


def decided(state, request, operation_id):
    """Return the agent's decision; an error, if it raises one."""
    try:
        return claims.instance_claim(state, call(operation_id=operation_id), NOON, request)
    except RequestError as error:
        return error


@st.composite
def fleets(draw):
    """Draw agents."""
    return [ReportingAgent(f"cn{n}", draw(nodes())) for n in range(draw(st.integers(1, 3)))]


def usages(manager):
    return [host.replica.usage for host in manager.get_all_host_states()]


@settings(max_examples=EXAMPLES)
@given(fleets(), flavors(), st.sampled_from([(), FILTERS]), st.integers(1, 4))
def test_agents_grant_what_is_selected_and_refuse_if_nothing_is(fleet, flavor, filters, number):
    manager, agents = reported(*fleet), {agent.name: agent.state for agent in fleet}
    before, owners = usages(manager), [uid() for _ in range(number)]
    try:
        found = scheduler(manager, filters=filters).select_destinations(
            RequestSpec(flavor=flavor), owners, alternates=True
        )
    except NoValidHost:
        assert usages(manager) == before
        # The requests are equal, so it does not matter in which order hosts are tried.
        for owner in owners:
            granting = {
                name: decision
                for name, state in agents.items()
                if isinstance(decision := decided(state, build(flavor, owner), uid()), Granted)
            }
            if not granting:
                return
            name, decision = granting.popitem()
            agents[name] = agents[name].fold(decision.change)
        raise AssertionError("the agents would grant every claim") from None
    except InvalidFlavor:
        for state in agents.values():
            assert isinstance(decided(state, build(flavor), uid()), InvalidFlavor)
        return
    for each in found:
        selected = each.selected
        request = build(flavor, each.instance_uuid)
        decision = decided(agents[selected.host], request, selected.operation_id)
        assert isinstance(decision, Granted), (selected.host, str(decision))
        agents[selected.host] = agents[selected.host].fold(decision.change)
    for each in found:  # every alternate grants its claim when all the others are made
        for other in each.alternates:
            request = build(flavor, each.instance_uuid)
            decision = decided(agents[other.host], request, other.operation_id)
            assert isinstance(decision, Granted), (other.host, str(decision))


MOVES = st.sampled_from(["resize", "migration", "live-migration", "evacuation"])


@given(fleets(), flavors(), flavors(), MOVES, st.booleans())
def test_a_moves_destination_grants_it_also_on_the_guests_own_host(fleet, old, new, purpose, reuse):
    """The guest is on the first host; a resize may stay there, and share what the guest has. Other
    moves may not.
    """
    at, owner = fleet[0], uid()
    at.state = replace(at.state, policy=replace(at.state.policy, same_host_resize_reuse=reuse))
    if not isinstance(decided(at.state, build(old, owner), uid()), Granted):  # as most often
        old = replace(old, vcpus=1, memory_mb=64, root_gb=0, swap=0, extra_specs={})
        assume(isinstance(decided(at.state, build(old, owner), uid()), Granted))
    claim = at.claim(build(old, owner))
    decision = claims.activate_claim(at.state, call("activate_claim"), NOON, claim.uuid)
    at.state = at.state.fold(decision.change)
    sizes = tuple(cell.pagesize for cell in claim.numa_topology.cells)
    live = SourceFacts(page_sizes=sizes if purpose == "live-migration" else ())
    asked = MoveRequest(build=build(new, owner), migration=purpose, old_flavor=old, source=live)

    def granted(agent, operation_id):
        try:
            made = move_claim(agent.state, call(operation_id=operation_id), NOON, asked)
        except RequestError as error:
            return error
        return made

    manager = reported(*fleet)
    others = fleet if purpose == "resize" else fleet[1:]
    spec = RequestSpec(flavor=new, purpose=purpose)
    try:
        [found] = scheduler(manager).select_destinations(spec, [owner], alternates=True)
    except (NoValidHost, InvalidFlavor):
        assert not any(isinstance(granted(agent, uid()), Granted) for agent in others)
        return
    selections = [found.selected, *found.alternates]
    assert len(selections) == sum(isinstance(granted(a, uid()), Granted) for a in others)
    by_name = {agent.name: agent for agent in fleet}
    for each in selections:
        made = granted(by_name[each.host], each.operation_id)
        assert isinstance(made, Granted), (each.host, str(made))


@settings(max_examples=2 * settings.default.max_examples)
@given(nodes(), flavors(), st.booleans())
def test_a_plain_request_is_decided_by_quantities_alone_as_allocate_does(state, flavor, volume):
    spec = RequestSpec(flavor=flavor, is_bfv=volume)
    try:
        template = claim_template(spec)
    except InvalidFlavor:
        return
    plain = template.plain
    if plain is None:
        return
    capacity = host_state("cn1", state).capacity
    fits = capacity.fits(plain.vcpus, plain.pcpus, plain.memory_mb, plain.disk_mb)
    decision = decided(state, template.build_request(uid()), uid())
    assert fits == isinstance(decision, Granted), str(decision)
