"""The claim of a domain that runs without one."""

from typing import Any

import pytest
from lxml import etree
from msgspec.structs import replace

from rtagent import claims
from rtagent.errors import ClaimConflict, DomainNotAdoptable, NodeNotReady
from rtagent.model.change import Change
from rtagent.model.claim import ACTIVE, BUILD, Claim
from rtagent.model.domain_usage import HostResource, Occupancy
from rtagent.model.guest import GuestLayout
from rtagent.model.node_state import NodeState
from rtagent.model.policy import PciPolicy
from rtagent.model.request import Flavor
from rtagent.model.usage import pcpus_used
from rtagent.reconcile.adoption import adopt, notes
from rtagent.reconcile.drift import absent, differences, drifts, orphans
from rtagent.virt.libvirt import guest
from tests.support.claims import (
    domain_document,
    hostdev,
    layout,
    metadata,
    pinned_parts,
    with_orphans,
)
from tests.support.hosts import NOON, PINNING, TOPOLOGY, call, host, request, uid, with_claims
from tests.support.pci_hosts import ALIASES, GPU_0, SPECS, two_gpus_and_a_nic, vf

UUID = uid(77)
ONLINE = TOPOLOGY.cpus


def state() -> NodeState:
    made = host(numa=PINNING, pci=PciPolicy(specs=SPECS, aliases=ALIASES))
    return replace(made, devices=type(made.devices)(two_gpus_and_a_nic()))


def read(
    *parts: str,
    uuid: str = UUID,
    devices: str = "",
    vcpus: int = 2,
    memory_mb: int = 1024,
    **facts: Any,
) -> GuestLayout:
    document = domain_document(uuid, vcpus, memory_mb, *parts, devices=devices)
    return layout(document, uuid, ONLINE, **facts)


def adopted(found: GuestLayout, flavor: Flavor | None = None) -> tuple[NodeState, Claim]:
    """The state after the adoption, every invariant checked, and the claim."""
    before = with_orphans(state(), found)
    granted = adopt(before, call("adopt_domain"), NOON, UUID, found, flavor)
    after = before.fold(granted.change)
    after.check()
    assert not [*orphans(after), *drifts(after), *absent(after)]
    assert after.usage.memory_mb == before.usage.memory_mb
    assert after.usage.numa.memory_mb == before.usage.numa.memory_mb
    assert after.usage.numa.pages == before.usage.numa.pages
    assert after.usage.vcpus == before.usage.vcpus
    assert after.usage.pcpus == pcpus_used(before.usage, before.policy)
    return after, granted.claims[0]


def refused(found: GuestLayout | None, among: NodeState | None = None) -> str:
    before = among or with_orphans(state(), *([found] if found else []))
    with pytest.raises(DomainNotAdoptable) as error:
        adopt(before, call("adopt_domain"), NOON, UUID, found, None)
    return error.value.message


def test_a_plain_domain_becomes_an_active_claim():
    _, claim = adopted(read())
    assert (claim.state, claim.kind, claim.expires_at) == (ACTIVE, BUILD, None)
    assert (claim.vcpus, claim.pcpus, claim.memory_mb, claim.disk_mb) == (2, 0, 1024, 0)
    assert claim.numa_topology is None
    assert claim.instance.display_name == f"n-{UUID[-4:]}"
    assert claim.instance.vm_state == "active"


def test_memory_that_is_plugged_into_a_claimed_guest_is_drift():
    """Its own pages and cell count, and so does its size in the guest's memory."""
    parts = pinned_parts(1, [5, 4], 1024, 2048)
    after, claim = adopted(read(parts))
    device = """<memory model='dimm'>
      <source><pagesize unit='KiB'>2048</pagesize><nodemask>0</nodemask></source>
      <target><size unit='MiB'>512</size><node>0</node></target></memory>"""
    larger = read(parts, devices=device, memory_mb=1536)
    observed = {each.resource: each.observed for each in differences(claim, larger.usage)}
    assert observed == {"MEMORY_MB": 1536, "pages of 2048 KiB at cell 0": 256}
    counted = with_claims(after, [claim], [larger.usage]).usage
    assert counted.memory_mb == 1536
    assert counted.numa.memory_mb == {0: 512, 1: 1024}


@pytest.mark.parametrize(("policy", "kept"), [("isolate", {5, 7}), ("prefer", set())])
def test_isolated_cpus_keep_their_idle_siblings(policy: str, kept: set[int]):
    specs = {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": policy}
    guest = read(metadata(extra_specs=specs), pinned_parts(1, [4, 6], 1024))
    other = read(pinned_parts(1, [5], 512), uuid=uid(78), vcpus=1, memory_mb=512)
    for others, expected in (((), kept), ((other,), kept - {5})):
        before = with_orphans(state(), guest, *others)
        granted = adopt(before, call("adopt_domain"), NOON, UUID, guest, None)
        after, (claim,) = before.fold(granted.change), granted.claims
        after.check()
        assert claim.numa_topology is not None
        assert claim.numa_topology.kept == expected
        assert claim.pcpus == 2
        assert not drifts(after)


def test_a_cell_whose_vcpus_run_anywhere_gets_no_pins():
    numa = "<cputune><emulatorpin cpuset='0'/></cputune>"
    numa += "<numatune><memory mode='strict' nodeset='1'/></numatune>"
    document = domain_document(UUID, 2, 1024, numa)
    _, claim = adopted(layout(document, UUID, ONLINE))
    assert claim.numa_topology is not None
    assert claim.numa_topology.cells[0].memory == 1024
    assert "vcpupin" not in guest.xml(claim)
    assert etree.fromstring(guest.apply(document, claim)).find("vcpu").get("cpuset") is None


def test_the_emulator_keeps_its_dedicated_cpu():
    _, claim = adopted(read(pinned_parts(1, [4, 5], 1024).replace("='4-5'", "='6'")))
    assert claim.numa_topology is not None
    assert claim.numa_topology.cells[0].cpuset_reserved == frozenset({6})
    assert claim.pcpus == 3


def test_devices_are_those_of_the_domain_for_the_alias_of_its_flavor():
    specs = {"pci_passthrough:alias": "gpu:1"}
    found = read(metadata(extra_specs=specs), devices=hostdev(GPU_0))
    _, claim = adopted(found)
    assert [(each.address, each.alias_name) for each in claim.pci] == [(GPU_0, "gpu")]
    assert [each.request_id for each in claim.pci_requests] == [claim.pci[0].request_id]


@pytest.mark.parametrize(
    ("element", "address", "source"),
    [
        (
            "<interface type='direct'><source dev='p20v1' mode='passthrough'/></interface>",
            vf(1), "neutron_port",
        ),
        (
            "<disk type='nvme' device='disk'><source type='pci' namespace='1'>"
            "<address domain='0' bus='0x08' slot='0' function='0'/></source>"
            "<target dev='vda'/></disk>",
            GPU_0, "flavor_alias",
        ),
    ],
)  # fmt: skip
def test_devices_of_other_elements_are_adopted_and_kept(element: str, address: str, source: str):
    _, claim = adopted(read(devices=element, interfaces={"p20v1": vf(1)}))
    assert [(each.address, each.source) for each in claim.pci] == [(address, source)]
    document = etree.fromstring(guest.apply(domain_document(UUID, devices=element), claim))
    (kept,), own = document.findall("devices/*"), etree.fromstring(element)
    assert (kept.tag, kept.get("type")) == (own.tag, own.get("type"))


def test_nova_metadata_names_flavor_project_user_and_server():
    specs = {"hw:cpu_policy": "shared"}
    _, claim = adopted(read(metadata(extra_specs=specs)))
    assert (claim.flavor.name, claim.flavor.flavorid) == ("m1.web", "f-7")
    assert claim.flavor.extra_specs == specs
    assert claim.image.properties == {"hw_machine_type": "q35"}
    instance = claim.instance
    assert (instance.display_name, instance.project_id, instance.user_id) == ("web-1", "p-1", "u-1")
    assert claim.disk_mb == 10 * 1024 + 512


def test_cells_of_the_image_are_those_of_nova_metadata():
    written = {
        "hw_numa_cpus": "[CoercedSet({0, 2}), CoercedSet({1}), CoercedSet()]",
        "hw_numa_mem": "[512, 256, 256]",
    }
    inner = "".join(
        f"<nova:property name='{name}'>{value}</nova:property>" for name, value in written.items()
    )
    found = metadata().replace("<nova:properties>", f"<nova:properties>{inner}")
    _, claim = adopted(read(found))
    assert claim.image.properties == {
        "hw_machine_type": "q35",
        **{f"hw_numa_cpus.{number}": cpus for number, cpus in enumerate(("0,2", "1", ""))},
        **{f"hw_numa_mem.{number}": size for number, size in enumerate(("512", "256", "256"))},
    }


@pytest.mark.parametrize(
    "root",
    [
        "",
        "<nova:root type='volume' uuid=''/>",
        "<nova:root type='volume' uuid='1b0c'/>",
        "<nova:root type='image' uuid=''/>",
    ],
)
def test_a_root_volume_takes_no_disk(root: str):
    found = metadata(volume=True).replace("</nova:instance>", f"{root}</nova:instance>")
    _, claim = adopted(read(found))
    assert claim.instance.is_volume_backed
    assert claim.disk_mb == 512


def test_the_sizes_of_the_domain_go_before_those_of_its_flavor():
    found = read(metadata(vcpus=4, memory_mb=8192))
    _, claim = adopted(found)
    assert (claim.flavor.vcpus, claim.flavor.memory_mb) == (2, 1024)
    lines = [note.partition(":")[0] for note in notes(found, None)]
    sizes = ("4 vCPUs, the domain 2", "8192 MB, the domain 1024")
    assert lines == [f"flavor m1.web has {size}" for size in sizes]


def test_the_history_begins_with_the_adoption():
    found = read()
    granted = adopt(with_orphans(state(), found), call(), NOON, UUID, found, None)
    (event,) = granted.change.events
    assert (event.action, event.before) == ("adopt", None)


ON_CELL_1 = pinned_parts(1, [4, 5], 1024)
EMULATOR_ON_CELL_0 = ON_CELL_1.replace("pin cpuset='4-5'", "pin cpuset='2'")
TWO_PINS = "".join(f"<vcpupin vcpu='{cpu}' cpuset='{cpu}'/>" for cpu in (0, 1))
CELLS = "".join(f"<cell id='{n}' cpus='{n}' memory='512' unit='MiB'/>" for n in (0, 1))
TWO_CELLS = f"<cpu><numa>{CELLS}</numa></cpu>"
LARGE = "<memoryBacking><hugepages><page size='2' unit='MiB'/></hugepages></memoryBacking>"
MEMNODE = "<numatune><memnode cellid='1' mode='strict' nodeset='1'/></numatune>"
FIFO = "<cputune><vcpusched vcpus='1' scheduler='fifo' priority='1'/></cputune>"
S390 = "<launchSecurity type='s390-pv'/>"
SIZE = "<source><nodemask>0</nodemask></source><target><size unit='MiB'>512</size></target>"
DIMM = f"<devices><memory model='dimm'>{SIZE}</memory></devices>"
ARGUMENT = "<q:arg value='vfio-pci,host=08:00.0'/></q:commandline>"
QEMU = f"<q:commandline xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0'>{ARGUMENT}"
VDPA = "<interface type='vdpa'><source dev='/dev/vhost-vdpa-0'/></interface>"


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        ("<vcpu current='1'>2</vcpu>", "1 of its 2 vCPUs are plugged in"),
        ("<vcpu cpuset='1-3'>2</vcpu>", "some of which [compute] cpu_dedicated_set has"),
        ("<cputune><vcpupin vcpu='0' cpuset='2'/></cputune>", "its vCPUs are pinned, but"),
        (pinned_parts(0, [2, 2], 1024), "several of its vCPUs are pinned to host CPU 2"),
        (f"<cputune>{TWO_PINS}</cputune>", "different sets of host CPUs (0 and 1)"),
        ("<memoryBacking><hugepages/></memoryBacking>", "no <page size=...>"),
        (LARGE, "it has pages of an explicit size, but"),
        (TWO_CELLS, "it has 2 guest cells, but"),
        (FIFO, "it has realtime vCPUs that are not pinned"),
        (MEMNODE + TWO_CELLS, "the memory of its guest cell 0 is bound to no single host cell"),
        (ON_CELL_1.replace("cpus='0-1'", "cpus='0'"), "its vCPUs 1 are in no guest cell"),
        (EMULATOR_ON_CELL_0, "its emulator runs on the host CPUs 2"),
        ("<cpu><topology sockets='1' dies='2' cores='1' threads='1'/></cpu>", "has dies"),
        (metadata(extra_specs={"hw:cpu_policy": "bogus"}), "its flavor: hw:cpu_policy=bogus"),
        ("<numatune><memory nodeset='x'/></numatune>", "<memory nodeset>"),
        (S390, "its memory is encrypted by s390-pv, which no claim has"),
        (DIMM, "a memory device is plugged in"),
        (QEMU, "<qemu:commandline> gives it a device"),
        (f"<devices>{VDPA}</devices>", "no device of the host has /dev/vhost-vdpa-0"),
    ],
)
def test_a_domain_that_no_claim_describes_is_refused_with_the_reason(part, reason):
    assert reason in refused(read(part))


def test_memory_that_is_bound_to_several_cells_of_more_is_a_reason():
    cells = (*TOPOLOGY.cells, replace(TOPOLOGY.cells[0], id=2))
    bound = read("<numatune><memory nodeset='0-1'/></numatune>", cells=cells)
    assert "bound to several host cells" in refused(bound)


def test_a_cpu_that_guests_may_not_use_is_named():
    found = read("<vcpu cpuset='3'>1</vcpu>", vcpus=1)
    before = with_orphans(host(numa=replace(PINNING, cpu_dedicated_set=frozenset({2}))), found)
    assert "host CPU 3, which neither" in refused(found, before)


def test_a_device_without_a_specification_is_named():
    found = read(devices=hostdev("0000:99:00.0"))
    assert "0000:99:00.0, but no [pci] device_spec matches it" in refused(found)


def test_a_domain_that_is_away_or_shut_off_or_has_changed_is_refused():
    assert "no domain with this uuid" in refused(None)
    off = layout(domain_document(UUID), UUID, ONLINE, active=False)
    assert "adopt it with --shut-off" in refused(off)
    assert "rtagent audit run" in refused(read(), with_orphans(state(), read(vcpus=1)))


def test_a_domain_of_which_something_was_unknown_at_the_last_audit_is_refused():
    before = with_orphans(state(), read())
    usage = before.domain_usages[UUID]
    usage = replace(usage, occupancy=Occupancy(unknown=frozenset({HostResource.DEVICES})))
    before = before.fold(Change(cause="audit", at=NOON, domain_usages=(usage,)))
    assert "could not read all that it uses (devices)" in refused(read(), before)


def test_of_two_domains_with_one_pinned_cpu_the_second_stays_an_orphan():
    first, second = (read(pinned_parts(0, [2, 3], 1024), uuid=each) for each in (UUID, uid(78)))
    before = with_orphans(state(), first, second)
    after = before.fold(adopt(before, call(), NOON, UUID, first, None).change)
    with pytest.raises(DomainNotAdoptable, match=r"PCPU [23] has two owners"):
        adopt(after, call(), NOON, uid(78), second, None)
    assert [each.domain_uuid for each in orphans(after)] == [uid(78)]


def test_a_domain_with_a_claim_is_a_conflict():
    found = read()
    after, claim = adopted(found)
    with pytest.raises(ClaimConflict, match=claim.uuid):
        adopt(after, call(), NOON, UUID, found, None)


def test_a_host_that_was_never_observed_is_not_ready():
    with pytest.raises(NodeNotReady):
        adopt(host(None), call(), NOON, UUID, read(), None)


def test_an_operation_id_that_names_another_claim_is_refused():
    """The record of the operation may have been purged; the claim is live."""
    first, found = read(uuid=uid(78)), read()
    before = with_orphans(state(), first, found)
    used = call("adopt_domain")
    before = before.fold(adopt(before, used, NOON, uid(78), first, None).change)
    with pytest.raises(ClaimConflict, match=used.operation_id):
        adopt(before, used, NOON, UUID, found, None)


# -- domains that are shut off --------------------------------------------------------------------

RUNNING = uid(78)


def read_off(*parts: str, **facts: Any) -> GuestLayout:
    return read(*parts, active=False, **facts)


def adopted_off(before: NodeState, found: GuestLayout) -> tuple[NodeState, Claim]:
    granted = adopt(before, call("adopt_domain"), NOON, UUID, found, None, shut_off=True)
    after = before.fold(granted.change)
    after.check()
    return after, granted.claims[0]


def test_the_claim_of_a_domain_that_is_shut_off_keeps_what_it_needs_to_start():
    found = read_off(pinned_parts(1, [4, 5], 1024, 2048), metadata(), devices=hostdev(GPU_0))
    before = with_orphans(state(), found)
    after, claim = adopted_off(before, found)
    assert (claim.state, claim.instance.vm_state) == ("active", "stopped")
    assert ([each.address for each in claim.pci], claim.pcpus) == ([GPU_0], 2)
    assert after.usage.memory_mb == before.usage.memory_mb + 1024
    assert after.usage.numa.pinned.keys() == {4, 5}
    assert not [*orphans(after), *drifts(after), *absent(after)]


@pytest.mark.parametrize("part", [pinned_parts(1, [4, 5], 1024), ""], ids=["pins", "device"])
def test_what_a_running_domain_uses_is_not_taken_by_one_that_is_shut_off(part):
    devices = "" if part else hostdev(GPU_0)
    off = read_off(part, devices=devices)
    before = with_orphans(state(), off, read(part, uuid=RUNNING, devices=devices))
    with pytest.raises(DomainNotAdoptable, match="it is shut off, and others use what it needs"):
        adopted_off(before, off)


def test_what_may_be_in_use_by_a_running_domain_is_not_taken_by_one_that_is_shut_off():
    off = read_off(pinned_parts(1, [4, 5], 1024))
    before = with_orphans(state(), off, read(uuid=RUNNING))
    usage = before.domain_usages[RUNNING]
    usage = replace(usage, occupancy=Occupancy(unknown=frozenset({HostResource.CPUS})))
    before = before.fold(Change(cause="audit", at=NOON, domain_usages=(usage,)))
    with pytest.raises(DomainNotAdoptable, match=f"by domain {RUNNING} .* is unknown"):
        adopted_off(before, off)


def test_what_a_claim_has_is_not_taken_by_one_that_is_shut_off():
    off = read_off(devices=hostdev(GPU_0), vcpus=1)
    before = with_orphans(state(), off)
    specs = {"pci_passthrough:alias": "gpu:2"}
    granted = claims.instance_claim(before, call(), NOON, request(extra_specs=specs))
    with pytest.raises(DomainNotAdoptable, match=f"PCI device {GPU_0}, which"):
        adopted_off(before.fold(granted.change), off)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        pytest.param(read_off(memory_mb=10**7), "MEMORY_MB", id="memory"),
        pytest.param(
            read_off(pinned_parts(0, [2], 10**6, 2048), vcpus=1, memory_mb=1024),
            "pages of 2048 KiB at cell 0",
            id="pages",
        ),
    ],
)
def test_a_host_that_has_too_little_does_not_adopt_one_that_is_shut_off(found, reason):
    with pytest.raises(DomainNotAdoptable, match=reason):
        adopted_off(with_orphans(state(), found), found)
