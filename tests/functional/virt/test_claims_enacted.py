"""Claims, enacted: domains that are what was granted, as they are seen to run."""

import contextlib

import libvirt
import pytest
from msgspec.structs import replace

from rtagent import claims
from rtagent.errors import InvalidFlavor
from rtagent.model.assignment import Assignment
from rtagent.model.cpuset import parse_cpu_spec
from rtagent.model.decision import Granted
from rtagent.model.policy import NumaPolicy
from rtagent.reconcile.drift import differences
from rtagent.virt.libvirt.guest import apply
from rtagent.virt.simulate import Machine, domain_xml, host_uri, simulate
from tests import servers
from tests.support.guests import combinations
from tests.support.hosts import NOON, call, host, request

PINNED = {"cpu_policy": "dedicated"}
BOTH = NumaPolicy(cpu_dedicated_set=frozenset({0, 1}))
SPLIT = NumaPolicy(cpu_shared_set=frozenset({0}), cpu_dedicated_set=frozenset({1}))
MEMORY_MB = 64

MACHINE = Machine(cores=8, memory_mb=16384, pages={2048: 1024, 1048576: 2})
SIMULATED = NumaPolicy(
    cpu_shared_set=parse_cpu_spec("0-1,8-9,16-17,24-25"),
    cpu_dedicated_set=parse_cpu_spec("2-7,10-15,18-23,26-31"),
)


@pytest.fixture
def hypervisor(connect, libvirtd, virsh):
    return connect(libvirtd.uri)


def grant(topology, policy, vcpus, memory_mb, specs):
    """What an agent answers on an empty host of that topology."""
    extra = {f"hw:{name}": value for name, value in specs.items()}
    answer = claims.instance_claim(
        host(topology, numa=policy), call(), NOON, request(vcpus, memory_mb, extra_specs=extra)
    )
    assert isinstance(answer, Granted), f"{specs}: {answer}"
    (claim,) = answer.claims
    return claim


def real_domain(claim):
    owner = claim.owner_id
    return servers.domain_xml(owner, owner, claim.flavor.vcpus, claim.flavor.memory_mb)


def seen(hypervisor, uuid):
    observation = hypervisor.observe()
    assert (observation.complete, observation.problems) == (True, ())
    return observation.domains[uuid].domain_usage()


@pytest.mark.parametrize(
    ("policy", "vcpus", "specs"),
    [
        (BOTH, 2, PINNED),
        (BOTH, 1, {**PINNED, "emulator_threads_policy": "isolate"}),
        (SPLIT, 2, {"cpu_policy": "mixed", "cpu_dedicated_mask": "1"}),
        (SPLIT, 1, {"numa_nodes": "1"}),
        (NumaPolicy(), 2, {}),
    ],
    ids=lambda value: ",".join(value.values()) if isinstance(value, dict) else "",
)
def test_a_guest_that_matches_its_claim_has_no_drift(hypervisor, virsh, policy, vcpus, specs):
    claim = grant(hypervisor.observe().topology, policy, vcpus, MEMORY_MB, specs)
    virsh.createXML(apply(real_domain(claim), claim), libvirt.VIR_DOMAIN_START_VALIDATE)

    domain_usage = seen(hypervisor, claim.owner_id)

    assert list(differences(claim, domain_usage)) == []
    assert domain_usage.occupancy.pcpus >= claim.numa_topology.taken
    assert domain_usage.occupancy.memory_mb == {c.id: c.memory for c in claim.numa_topology.cells}


def test_a_guest_on_other_cpus_drifts_cpu_by_cpu(hypervisor, virsh):
    claim = grant(hypervisor.observe().topology, SPLIT, 1, MEMORY_MB, PINNED)
    document = apply(real_domain(claim), claim)
    virsh.createXML(document.replace('cpuset="1"', 'cpuset="0"'))

    found = differences(claim, seen(hypervisor, claim.owner_id))

    assert [(drift.resource, drift.claimed, drift.observed) for drift in found] == [
        ("host CPU 0", 0, 1),
        ("host CPU 1", 1, 0),
    ]


def test_a_guest_that_is_repinned_is_seen_within_ten_observations(hypervisor, virsh):
    claim = grant(hypervisor.observe().topology, SPLIT, 1, MEMORY_MB, PINNED)
    domain = virsh.createXML(apply(real_domain(claim), claim))
    assert list(differences(claim, seen(hypervisor, claim.owner_id))) == []

    domain.pinVcpu(0, (True, False))

    looks = [seen(hypervisor, claim.owner_id) for _ in range(10)]
    assert any(differences(claim, looks[-1]))


def test_the_cells_of_this_machine(hypervisor):
    topology = hypervisor.observe().topology
    assert frozenset().union(*(cell.cpus for cell in topology.cells)) == topology.cpus
    for cell in topology.cells:
        assert frozenset().union(*cell.siblings) == cell.cpus
        mapped = sum(size * count for size, count in cell.pages.items())
        assert cell.memory_mb * 1024 - min(cell.pages) < mapped <= cell.memory_mb * 1024
        assert cell.distances[cell.id] == 10


def test_every_combination_of_policies_on_a_simulated_host(connect, tmp_path):
    file = tmp_path / "host.xml"
    simulate(file, MACHINE)
    hypervisor = connect(host_uri(file))
    granted = list(_all(hypervisor.observe().topology))
    simulate(file, MACHINE, [_simulated(claim) for claim in granted])
    there = hypervisor.observe()

    assert there.problems == ()
    assert len(granted) > 200
    for claim in granted:
        domain_usage = there.domains[claim.owner_id].domain_usage()
        assert list(differences(claim, domain_usage)) == [], claim.flavor.extra_specs
        pages = {size for pools in domain_usage.occupancy.pages.values() for size in pools}
        assert pages == {c.pagesize for c in claim.numa_topology.cells if c.hugepages}
        own = claim.numa_topology.taken - claim.numa_topology.kept
        assert own <= domain_usage.occupancy.pcpus <= claim.numa_topology.allowed


def test_a_simulated_guest_on_other_cells_drifts_in_cpus_and_pages(connect, tmp_path):
    file = tmp_path / "host.xml"
    simulate(file, MACHINE)
    hypervisor = connect(host_uri(file))
    specs = {**PINNED, "mem_page_size": "2MB"}
    claim = grant(hypervisor.observe().topology, SIMULATED, 2, 512, specs)
    (cell,) = claim.numa_topology.cells
    moved = replace(cell, id=1, cpu_pinning={0: 26, 1: 27})
    elsewhere = Assignment(cells=(moved,), emulator_pcpus=frozenset({26, 27}))
    simulate(file, MACHINE, [_simulated(replace(claim, numa_topology=elsewhere))])
    found = differences(claim, seen(hypervisor, claim.owner_id))

    own = [f"host CPU {cpu}" for cpu in sorted(cell.cpu_pinning.values())]
    pages = "pages of 2048 KiB at cell"
    assert [(d.resource, d.claimed, d.observed) for d in found] == [
        *((cpu, 1, 0) for cpu in own),
        ("host CPU 26", 0, 1),
        ("host CPU 27", 0, 1),
        (f"{pages} 0", 256, 0),
        (f"{pages} 1", 0, 256),
    ]


def _all(topology):
    for specs in combinations():
        with contextlib.suppress(InvalidFlavor):
            yield grant(topology, SIMULATED, 4, 2048, specs)


def _simulated(claim):
    flavor = claim.flavor
    return apply(domain_xml(claim.owner_id, vcpus=flavor.vcpus, memory_mb=flavor.memory_mb), claim)
