"""The query of allocation candidates for a request."""

import json
from urllib.parse import urlencode

import pytest
from msgspec.structs import replace

from rtagent.conf.scheduler import SchedulerOptions
from rtagent.errors import InvalidPciRequest, PciRequestAliasNotDefined, PropertyInvalid
from rtagent.model.request import Flavor, PciRequest
from rtagent.model.server import Destination, ImageRequest, RequestGroup, RequestSpec
from rtagent.pci.specs import parse_aliases
from rtagent.scheduler.claim_template import claim_template
from rtagent.scheduler.errors import NoValidHost
from rtagent.scheduler.placement_request import candidates_query
from rtagent.scheduler.ports import MAX_TRIED, Candidate, Candidates
from tests.support.host_states import aggregate
from tests.support.hosts import uid
from tests.support.pci_hosts import ALIASES, VF_IDS
from tests.support.scheduling import group, spec

ALWAYS = {"root_required": "!COMPUTE_STATUS_DISABLED", "limit": "1000"}
SECURE_BOOT = "COMPUTE_SECURITY_UEFI_SECURE_BOOT"


def query(wanted, *aggregates, in_tree=None, **options):
    """Return the query by name; of a name that is repeated, all values."""
    template, settings = claim_template(wanted), SchedulerOptions(**options)
    pairs = candidates_query(wanted, template, settings, aggregates, in_tree)
    assert urlencode(pairs)
    names = [name for name, _ in pairs]
    return {
        name: [value for n, value in pairs if n == name] if names.count(name) > 1 else value
        for name, value in pairs
    }


@pytest.mark.parametrize(
    ("extra_specs", "resources"),
    [
        ({}, "DISK_GB:11,MEMORY_MB:1024,VCPU:2"),
        ({"hw:cpu_policy": "dedicated"}, "DISK_GB:11,MEMORY_MB:1024,PCPU:2"),
        (
            {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0"},
            "DISK_GB:11,MEMORY_MB:1024,PCPU:1,VCPU:1",
        ),
        ({"resources:VCPU": "0", "resources:DISK_GB": "0"}, "MEMORY_MB:1024"),
        ({"resources:PCPU": "0"}, "DISK_GB:11,MEMORY_MB:1024"),
        ({"resources:PCPU": "0", "resources1:VCPU": "0"}, "DISK_GB:11,MEMORY_MB:1024"),
        ({"resources:PCPU": "2"}, "DISK_GB:11,MEMORY_MB:1024,PCPU:2"),
        (
            {"hw:cpu_policy": "dedicated", "resources:PCPU": "0"},
            "DISK_GB:11,MEMORY_MB:1024,PCPU:2",
        ),
        ({"resources:VGPU": "1"}, "DISK_GB:11,MEMORY_MB:1024,VCPU:2,VGPU:1"),
        ({"hw:pmem": "4GB"}, "CUSTOM_PMEM_NAMESPACE_4GB:1,DISK_GB:11,MEMORY_MB:1024,VCPU:2"),
    ],
)
def test_the_flavor_is_the_group_without_a_suffix(extra_specs, resources):
    flavor = Flavor(vcpus=2, memory_mb=1024, root_gb=10, swap=1, extra_specs=extra_specs)
    assert query(RequestSpec(flavor=flavor)) == {"resources": resources, **ALWAYS}


def test_a_volume_needs_no_disk_and_extra_resources_one_node_and_the_limit_are_added():
    wanted = spec(1, 512, 10, is_bfv=True, extra_resource={"VGPU": 1, "CUSTOM_X": ("a", "b")})
    found = query(wanted, in_tree=uid(5), max_placement_results=7)
    assert found["resources"] == "CUSTOM_X:2,MEMORY_MB:512,VCPU:1,VGPU:1"
    assert (found["in_tree"], found["limit"]) == (uid(5), "7")


def test_groups_and_traits_of_the_flavor():
    numbered = {"resources1:VGPU": "2", "resources1:VCPU": "1", "trait1:CUSTOM_FAST": "required"}
    traits = {"trait:HW_CPU_X86_AVX": "required", "trait:CUSTOM_SLOW": "forbidden"}
    wanted = spec(
        1,
        512,
        extra_specs={**numbered, **traits, "in_tree1": uid(9), "group_policy": "isolate"},
        image=ImageRequest(properties={"trait:CUSTOM_OF_IMAGE": "required"}),
        required_traits=("CUSTOM_ROOT",),
        forbidden_traits=("CUSTOM_NOT",),
    )
    found = query(wanted)
    assert found == {
        "resources": "DISK_GB:1,MEMORY_MB:512",
        "required": "CUSTOM_OF_IMAGE,HW_CPU_X86_AVX,!CUSTOM_SLOW",
        "resources1": "VCPU:1,VGPU:2",
        "required1": "CUSTOM_FAST",
        "in_tree1": uid(9),
        "group_policy": "isolate",
        "root_required": "CUSTOM_ROOT,!COMPUTE_STATUS_DISABLED,!CUSTOM_NOT",
        "limit": "1000",
    }


@pytest.mark.parametrize(
    "extra_specs",
    [
        {"trait:CUSTOM_X": "yes"},
        {"resources:VGPU": "-1"},
        {"trait:HW_X,!CUSTOM_Y": "required"},
        {"trait1:custom_x": "forbidden"},
        {"resources1:VGPU:1,CUSTOM_X": "1"},
        {"in_tree": "tree"},
        {"group_policy": "any", "resources1:VGPU": "1"},
        {"resources:CUSTOM_": "1"},
        {"trait1:CUSTOM_": "required"},
    ],
)
def test_a_malformed_group_is_an_error_that_names_it(extra_specs):
    key = next(iter(extra_specs))
    with pytest.raises(PropertyInvalid, match=key):
        query(spec(extra_specs=extra_specs))


@pytest.mark.parametrize("name", ["!CUSTOM_B", "CUSTOM_A,!CUSTOM_B", ""])
def test_the_image_adds_no_condition_but_required_traits(name):
    image = ImageRequest(properties={f"trait:{name}": "required"})
    with pytest.raises(PropertyInvalid, match="must name a trait"):
        query(spec(image=image))


def test_requested_resources_are_groups():
    fields = {"resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 100}, "in_tree": uid(7)}
    port = RequestGroup(requester_id="port-1", required_traits=("CUSTOM_PHYSNET",), **fields)
    found = query(spec(requested_resources=(port,)))
    assert found["resources_port-1"] == "NET_BW_EGR_KILOBIT_PER_SEC:100"
    assert found["required_port-1"] == "CUSTOM_PHYSNET"
    assert found["in_tree_port-1"] == uid(7)
    assert found["group_policy"] == "none"


def test_groups_of_a_port_are_in_one_subtree():
    port = [RequestGroup(requester_id=name, resources={"CUSTOM_X": 1}) for name in ("bw", "rate")]
    found = query(spec(requested_resources=port, same_subtree=(("bw", "rate"), ("rate",))))
    assert found["same_subtree"] == ["_bw,_rate", "_rate"]


def test_the_tree_of_the_flavor_stays_if_a_host_is_named():
    found = query(spec(extra_specs={"in_tree": uid(9)}), in_tree=uid(5))
    assert found["in_tree"] == uid(9)


def test_a_context_of_encrypted_memory_has_a_group_with_the_models_trait():
    image = ImageRequest(properties={"hw_firmware_type": "uefi", "hw_machine_type": "q35"})
    found = query(spec(extra_specs={"hw:mem_encryption": "true"}, image=image))
    assert found["resources_mem_encryption"] == "MEM_ENCRYPTION_CONTEXT:1"
    assert found["required_mem_encryption"] == "HW_CPU_X86_AMD_SEV"


def test_each_device_of_a_flavor_is_a_group_if_devices_are_in_placement():
    devices = (PciRequest(count=2, request_id="nic", alias_name="vf"),)
    wanted = spec(extra_specs={"pci_passthrough:alias": "vf:2"}, pci_requests=devices)
    found = query(wanted, pci_in_placement=True, aliases=ALIASES)
    assert found["resources_nic-0"] == found["resources_nic-1"] == "CUSTOM_PCI_8086_154C:1"
    assert found["required_nic-0"] == "COMPUTE_MANAGED_PCI_DEVICE"
    assert "resources_nic-2" not in found
    assert not any("nic" in name for name in query(wanted, aliases=ALIASES))


@pytest.mark.parametrize("aliases", ["gpu:2", "vf:1", ""])
def test_a_resize_asks_for_the_devices_of_the_new_flavor_alone(aliases):
    old = PciRequest(count=1, request_id="old", alias_name="gpu")
    new = spec(extra_specs={"pci_passthrough:alias": aliases})
    resize = replace(new, purpose="resize", pci_requests=(old,))
    options = {"pci_in_placement": True, "aliases": ALIASES}
    assert query(resize, **options) == query(new, **options)


def test_class_and_traits_of_an_alias():
    alias = {"name": "a", "resource_class": "GOLD", "traits": "FAST", "live_migratable": "yes"}
    wanted = spec(extra_specs={"pci_passthrough:alias": "a:1"})
    found = query(wanted, pci_in_placement=True, aliases=parse_aliases([json.dumps(alias)]))
    assert found["resources_a-0"] == "CUSTOM_GOLD:1"
    traits = "COMPUTE_MANAGED_PCI_DEVICE,CUSTOM_FAST,HW_PCI_LIVE_MIGRATABLE"
    assert found["required_a-0"] == traits


def test_devices_of_ports_are_not_in_placement():
    port = PciRequest(count=1, request_id="p", spec=({"vendor_id": "8086"},), source="neutron_port")
    found = query(spec(pci_requests=(port,)), pci_in_placement=True)
    assert found == {"resources": "DISK_GB:1,MEMORY_MB:1024,VCPU:1", **ALWAYS}


def test_a_device_that_placement_cannot_be_asked_for():
    several = [{"name": "two", **VF_IDS}, {"name": "two", **VF_IDS, "product_id": "1111"}]
    aliases = parse_aliases([*map(json.dumps, several)])
    any_vf = PciRequest(count=1, request_id="any", spec=({"dev_type": "type-VF"},))
    for wanted in (
        spec(extra_specs={"pci_passthrough:alias": "two:1"}),
        spec(pci_requests=(any_vf,)),
    ):
        with pytest.raises(InvalidPciRequest, match="pci_in_placement needs one alternative"):
            query(wanted, pci_in_placement=True, aliases=aliases)
    with pytest.raises(PciRequestAliasNotDefined):
        query(spec(extra_specs={"pci_passthrough:alias": "no:1"}), pci_in_placement=True)


ZONE = aggregate("zone", "cn1", availability_zone="az1")
TENANT = aggregate("tenant", "cn1", filter_tenant_id="p1", filter_tenant_id2="p2")
ISOLATED = aggregate("isolated", "cn2", **{"trait:CUSTOM_LICENSED": "required"})


def test_aggregates_of_the_destination_and_of_the_zone():
    members = (f"{uid(2)},{uid(1)}", uid(3))
    destination = Destination(aggregates=members, forbidden_aggregates=(uid(4),))
    wanted = spec(requested_destination=destination, availability_zone="az1")
    members = query(wanted, ZONE)["member_of"]
    assert members == [f"in:{uid(1)},{uid(2)}", f"in:{uid(3)}", f"in:{ZONE.uuid}", f"!in:{uid(4)}"]
    assert "member_of" not in query(spec(availability_zone="other"), ZONE)
    assert "member_of" not in query(
        spec(availability_zone="az1"), ZONE, query_placement_for_availability_zone=False
    )


def test_aggregates_that_are_reserved_for_projects():
    limit = {"limit_tenants_to_placement_aggregate": True}
    for project in ("p1", "p2"):
        assert query(spec(project_id=project), TENANT, **limit)["member_of"] == f"in:{TENANT.uuid}"
    assert "member_of" not in query(spec(project_id="p3"), TENANT, **limit)
    with pytest.raises(NoValidHost, match="placement_aggregate_required_for_tenants"):
        query(spec(project_id="p3"), TENANT, placement_aggregate_required_for_tenants=True, **limit)


def test_isolated_aggregates_are_for_requests_with_their_traits():
    isolated = {"enable_isolated_aggregate_filtering": True}
    assert query(spec(), ISOLATED, ZONE, **isolated)["member_of"] == f"!in:{ISOLATED.uuid}"
    for suffix in ("", "1"):
        extra_specs = {f"trait{suffix}:CUSTOM_LICENSED": "required", f"resources{suffix}:VGPU": "1"}
        assert "member_of" not in query(spec(extra_specs=extra_specs), ISOLATED, **isolated)
    secure = aggregate("secure", **{f"trait:{SECURE_BOOT}": "required"})
    assert query(spec(), secure, **isolated)["member_of"] == f"!in:{secure.uuid}"
    booting = spec(extra_specs={"os:secure_boot": "required"})
    assert query(booting)["root_required"] == f"{SECURE_BOOT},!COMPUTE_STATUS_DISABLED"
    assert "member_of" not in query(booting, secure, **isolated)


@pytest.mark.parametrize(
    "fields",
    [
        {"scheduler_hints": {"same_host": uid(1)}},
        {"scheduler_hints": {"different_host": (uid(1),)}},
        {"instance_group": group("affinity", uid(1))},
        {"force_hosts": ("cn1", "cn2")},
        {"force_nodes": ("cn1.example", "cn2.example")},
        {"requested_destination": Destination(host="cn1")},
    ],
)
def test_a_limit_does_not_leave_out_the_hosts_of_instances_or_those_that_are_named(fields):
    assert "limit" not in query(spec(**fields))
    assert query(spec(**fields), in_tree=uid(5))["limit"] == "1000"


@pytest.mark.parametrize(
    ("zone", "asked", "limit"),
    [("nova", True, None), ("az1", False, None), ("az1", True, "1000"), (None, True, "1000")],
)
def test_a_limit_does_not_leave_out_hosts_of_a_zone_that_is_not_in_the_query(zone, asked, limit):
    wanted, option = spec(availability_zone=zone), {"query_placement_for_availability_zone": asked}
    assert query(wanted, ZONE, **option).get("limit") == limit
    assert query(wanted, TENANT, **option)["limit"] == "1000", "no host has a zone"


@pytest.mark.parametrize(
    ("image", "is_bfv", "trait"),
    [("qcow2", False, "COMPUTE_IMAGE_TYPE_QCOW2,"), ("qcow2", True, ""), ("odd", False, "")],
)
def test_the_trait_of_the_images_format(image, is_bfv, trait):
    wanted = spec(image=ImageRequest(disk_format=image), is_bfv=is_bfv)
    found = query(wanted, query_placement_for_image_type_support=True)
    assert found["root_required"] == f"{trait}!COMPUTE_STATUS_DISABLED"
    assert "IMAGE" not in query(wanted)["root_required"]


def test_a_provider_that_shares_its_disk_is_not_the_host_though_it_is_in_the_tree_of_a_node():
    one, two, disk = uid(1), uid(2), uid(3)
    requests = (
        {
            "allocations": {
                one: {"resources": {"VCPU": 1, "MEMORY_MB": 512}},
                disk: {"resources": {"DISK_GB": 10}},
            }
        },
        {"allocations": {disk: {"resources": {"DISK_GB": 10}}}},  # of a flavor without CPUs
    )
    found = Candidates(requests=requests, roots={disk: two}).by_host([one, two])
    assert [each.request for each in found[one]] == [requests[0]]
    assert [each.request for each in found[two]] == [requests[1]]


def test_of_candidates_that_permute_the_devices_of_one_request_the_first_is_tried():
    root, one, two = uid(1), uid(2), uid(3)
    names = (("_a-0", "_a-1"), ("_a-1", "_a-0"), ("_a-0", "_b-0"), ("_b-0", "_a-0"))
    requests = [
        {
            "allocations": {uuid: {"resources": {"VCPU": 1}} for uuid in (root, one, two)},
            "mappings": {"": [root], first: [one], second: [two]},
        }
        for first, second in names
    ]
    candidates = Candidates(requests=tuple(requests)).by_host([root])[root]
    assert [candidate.request for candidate in candidates] == [requests[0], *requests[2:]]


def test_candidates_are_grouped_by_host_with_their_shared_providers():
    one, two, disk = uid(1), uid(2), uid(3)
    part = {"resources": {"VCPU": 1}}
    requests = (
        {"allocations": {one: part, disk: part}, "mappings": {"": [one, disk], "_nic-0": [one]}},
        *({"allocations": {uid(10): part}, "mappings": {}} for _ in range(MAX_TRIED + 1)),
    )
    candidates = Candidates(requests=requests, roots={one: one, disk: disk, uid(10): two})
    found = candidates.by_host([one, two])
    assert {uuid: len(each) for uuid, each in found.items()} == {one: 1, two: MAX_TRIED}
    [first] = found[one]
    assert first.provider_mapping == {"nic-0": (one,)}
    parts = {uuid: a.resources for uuid, a in first.allocations.items()}
    assert parts == {one: {"VCPU": 1}, disk: {"VCPU": 1}}
    assert isinstance(first, Candidate)
