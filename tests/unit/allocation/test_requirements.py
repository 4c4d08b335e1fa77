"""What a request requires; nothing that it asks for is ignored silently."""

from decimal import Decimal

import pytest

from rtagent.allocation.requirements import from_move, from_request
from rtagent.errors import InvalidPciRequest, PropertyInvalid
from rtagent.model.decision import ReasonCode
from rtagent.model.migration import MoveRequest, SourceFacts
from rtagent.model.policy import Policy
from rtagent.model.request import Limits, NetworkMetadata, NumaLimits, PciRequest
from rtagent.model.usage import Usage
from tests.support.device_states import refusal
from tests.support.hosts import host, request


def test_extra_resources_are_added_to_those_of_the_flavor():
    asked = request(1, 100, 1, extra_resource={"VCPU": 1, "MEMORY_MB": 28, "DISK_GB": 2})
    found = from_request(asked, Policy())
    assert found.usage == Usage(vcpus=2, memory_mb=128, disk_mb=3 * 1024)
    assert not found.assigned_resources


@pytest.mark.parametrize(
    "asked",
    [
        request(extra_resource={"VGPU": 1}),
        request(extra_resource={"PCPU": 1}),
        request(extra_resource={"CUSTOM_PMEM_NAMESPACE_SMALL": ("ns0", "ns1")}),
        request(instance={"pci_requests": (PciRequest(count=2, spec=({"vendor_id": "10de"},)),)}),
    ],
)
def test_request_that_asks_for_what_the_host_does_not_have_is_refused(asked):
    assert [r.code for r in refusal(host(), asked).reasons] == [ReasonCode.NOT_OFFERED]


@pytest.mark.parametrize("number", ["0", ""])
def test_zero_units_of_a_class_require_nothing(number):
    found = from_request(request(extra_specs={"resources:VGPU": number}), Policy())
    assert not found.assigned_resources


def test_named_units_count_towards_the_number_of_the_flavor():
    named = {"VGPU": ("a", "b")}
    flavor = {"resources:VGPU": "2"}
    found = from_request(request(extra_specs=flavor, extra_resource=named), Policy())
    assert found.assigned_resources == named
    with pytest.raises(InvalidPciRequest, match="the flavor asks for 3"):
        three = {"resources:VGPU": "3"}
        from_request(request(extra_specs=three, extra_resource=named), Policy())


def test_numbered_groups_are_those_of_classes_that_are_not_counted():
    specs = {"resources1:VGPU": "2", "resources_B:CUSTOM_X": "1", "resources_B:VCPU": "1"}
    found = from_request(request(extra_specs={**specs, "group_policy": "isolate"}), Policy())
    groups = [(dict(each.quantities), each.isolated) for each in found.numbered]
    assert groups == [({"VGPU": 2}, True), ({"CUSTOM_X": 1}, True)]
    assert not from_request(request(extra_specs=specs), Policy()).numbered[0].isolated
    with pytest.raises(PropertyInvalid, match="none, isolate"):
        from_request(request(extra_specs={**specs, "group_policy": "apart"}), Policy())


def test_limits_of_the_request_are_counted_in_mb_and_vcpus():
    found = from_request(request(limits=Limits(vcpu=4, disk_gb=2)), Policy())
    assert found.limits == {"vcpus": 4, "disk_mb": 2048}


def test_ratios_of_cells_are_those_of_the_request_or_else_of_the_host():
    policy = Policy(cpu_allocation_ratio=Decimal(4), ram_allocation_ratio=Decimal("1.5"))
    limits = Limits(numa_topology=NumaLimits(ram_allocation_ratio=0.9))
    cell = from_request(request(limits=limits), policy).cell_limits
    assert (cell.cpu_allocation_ratio, cell.ram_allocation_ratio) == (Decimal(4), Decimal("0.9"))
    for unset in (Limits(), Limits(numa_topology=NumaLimits())):
        cell = from_request(request(limits=unset), policy).cell_limits
        assert cell.cpu_allocation_ratio == Decimal(4)
        assert cell.ram_allocation_ratio == Decimal("1.5")


def move(kind, build, page_sizes=()):
    source = SourceFacts(page_sizes=page_sizes)
    old = build.instance.flavor
    return MoveRequest(build=build, migration=kind, old_flavor=old, source=source)


@pytest.mark.parametrize(
    ("kind", "kept"),
    [
        ("resize", ["port"]),
        ("migration", ["port"]),
        ("live-migration", ["gpu", "port"]),
        ("evacuation", ["gpu", "port"]),
    ],
)
def test_resize_and_migration_keep_only_the_device_requests_of_ports(kind, kept):
    spec = ({"vendor_id": "10de"},)
    own = PciRequest(count=1, spec=spec, request_id="gpu")
    port = PciRequest(count=1, spec=spec, request_id="port", source="neutron_port")
    found = from_move(move(kind, request(instance={"pci_requests": (own, port)})), Policy())
    assert [each.request_id for each in found.devices] == kept


@pytest.mark.parametrize(("kind", "pagesize"), [("live-migration", 2048), ("resize", "large")])
def test_only_a_live_migration_keeps_the_page_sizes_of_the_source(kind, pagesize):
    build = request(extra_specs={"hw:mem_page_size": "large"})
    found = from_move(move(kind, build, page_sizes=(2048,)), Policy())
    assert [cell.pagesize for cell in found.numa.cells] == [pagesize]


NETWORKS = NetworkMetadata(physnets=("foo",), tunneled=True)
ATTACHED = Limits(numa_topology=NumaLimits(network_metadata=NETWORKS))


def test_networks_of_the_request_are_required_of_builds_and_moves():
    asked = request(limits=ATTACHED)
    assert from_request(asked, Policy()).numa.networks == NETWORKS
    assert from_request(request(), Policy()).numa.networks == NetworkMetadata()
    for kind in ("resize", "migration", "live-migration", "evacuation"):
        assert from_move(move(kind, asked), Policy()).numa.networks == NETWORKS
