"""Room of one flavor: the number, the reason that ends it, and where the guests are."""

import threading
from decimal import Decimal

import pytest
from msgspec.structs import replace

from rtagent.allocation.requirements import from_request
from rtagent.capacity.count import Count, Counts
from rtagent.capacity.room import emptied, judged, room
from rtagent.capacity.stranded import stranded
from rtagent.model.device import PciDevices
from rtagent.model.policy import PciPolicy
from rtagent.model.request import Flavor
from tests.support.device_states import with_builds
from tests.support.hosts import PINNED, PINNING, host, request
from tests.support.pci_hosts import gpu, record
from tests.support.random_nodes import ALIASES

#: Two cells of four CPUs; cell 0 has two dedicated ones, cell 1 four.
HOST = host(numa=PINNING)
#: The same with a GPU at each cell.
GPUS = PciDevices(record([gpu("0000:0a:00.0", 0), gpu("0000:0b:00.0", 1)]))
ALIASED = replace(HOST.policy, pci=PciPolicy(aliases=ALIASES))
WITH_GPUS = replace(HOST, devices=GPUS, policy=ALIASED)


def counted(state, vcpus=1, memory_mb=512, root_gb=0, **specs):
    build = request(vcpus, memory_mb, root_gb, extra_specs=specs)
    state = judged(state)
    return room(state, build, from_request(build, state.policy))


def pinned(state, vcpus):
    return counted(state, vcpus, **PINNED)


def test_plain_guests_are_counted_by_the_scarcest_sum():
    found = counted(HOST, 1, 6144, 10)
    answer = (found.number, str(found.reasons[0]))
    assert answer == (2, "MEMORY_MB: 6144 MB requested at cn1.example, 4096 available")
    assert (found.left.free_vcpus, found.left.free_disk_mb) == (0, 80 * 1024)


@pytest.mark.parametrize(
    ("asked", "never"),
    [
        ({"vcpus": 5, **PINNED}, "needs 5 CPUs (PCPU) in one cell, the largest has 4"),
        ({"vcpus": 7, **PINNED}, "needs 7 CPUs (PCPU), the host has 6"),
        ({"memory_mb": 20_000}, "needs 20000 MB (MEMORY_MB), the host has 16384"),
        ({"hw:mem_page_size": "1GB"}, "1GiB pages: 512 MB requested at cell 0, which this host"
         " does not offer"),
    ],
)  # fmt: skip
def test_a_flavor_that_does_not_fit_the_empty_host_never_fits(asked, never):
    found = counted(HOST, **asked)
    assert (found.number, found.never) == (0, never)


def test_a_flavor_that_fits_the_empty_host_is_not_said_to_fit_never():
    full = with_builds(HOST, *(request(2, 512, extra_specs=PINNED) for _ in range(3)))
    assert pinned(full, 2).never == ""
    assert pinned(full, 2).number == 0
    assert pinned(emptied(full), 2).number == 3


def test_amounts_are_judged_where_placement_decides_on_them():
    lenient = replace(
        HOST, policy=replace(HOST.policy, judge_amounts=False, ram_allocation_ratio=Decimal("1.5"))
    )
    assert counted(lenient, 1, 6144).number == counted(HOST, 1, 6144).number == 2
    assert counted(lenient, 1, 12288).number == 2  # 24 GB by the ratio


def test_a_count_of_guests_with_cells_stops_and_says_so():
    build = request(1, 1, extra_specs={"hw:numa_nodes": "1"})
    many = host(numa=PINNING, cpu_allocation_ratio=16)
    found = room(judged(many), build, from_request(build, many.policy), most=5)
    assert (found.number, found.more, found.reasons) == (5, True, ())


# -- stranded -------------------------------------------------------------------------------------


def flavor(vcpus=1, memory_mb=512, **specs):
    return Flavor(name=f"f{vcpus}", vcpus=vcpus, memory_mb=memory_mb, root_gb=1, extra_specs=specs)


def parts(state, *flavors):
    found = Count(state, flavors).stranded
    return {(each.resource, each.where): (each.number, each.free, *each.names) for each in found}


def test_cpus_of_a_cell_with_too_few_are_stranded():
    found = parts(HOST, flavor(4, **PINNED), flavor())
    pages = {("2MiB pages", f"cell {cell}"): (512, 512) for cell in (0, 1)}
    assert found == {("PCPU", "cell 0"): (2, 2, "2-3"), **pages}


def test_all_that_is_free_is_stranded_if_no_flavor_fits():
    found = parts(HOST, flavor(64))
    assert found[("MEMORY_MB", "cn1.example")] == (16384, 16384)
    assert found[("VCPU", "cn1.example")] == (2, 2)
    assert found[("PCPU", "cell 1")] == (4, 4, "4-7")


def test_nothing_is_stranded_without_a_catalogue():
    assert stranded(judged(HOST), []) == ()


def test_a_device_whose_cell_is_full_is_stranded():
    specs = {**PINNED, "pci_passthrough:alias": "gpu:1"}
    near = flavor(4, **specs, **{"hw:pci_numa_affinity_policy": "required"})
    far = flavor(4, **specs, **{"hw:pci_numa_affinity_policy": "preferred"})
    found = parts(WITH_GPUS, near)
    assert found[("PCI 10de:13f1", "cn1.example")] == (1, 1, "0000:0a:00.0")
    assert not [name for name, _ in parts(WITH_GPUS, far) if name.startswith("PCI")]


def test_a_device_that_one_guest_would_get_instead_of_another_is_not_stranded():
    asked = flavor(1, **{"pci_passthrough:alias": "gpu:1"})
    large = replace(asked, root_gb=60)  # the disk is enough for one
    assert counted(WITH_GPUS, 1, 512, 60, **large.extra_specs).number == 1
    assert not [name for name, _ in parts(WITH_GPUS, large, flavor()) if name.startswith("PCI")]
    assert [name for name, _ in parts(WITH_GPUS, flavor()) if name.startswith("PCI")]


# -- kept by revision -----------------------------------------------------------------------------


def test_a_state_of_the_same_revision_is_not_counted_again():
    counts = Counts()
    first = counts.of(HOST)
    assert counts.of(replace(HOST)) is first
    changed = with_builds(HOST, request(1, 512, extra_specs=PINNED))
    assert counts.of(changed) is not first


def test_no_thread_waits_for_the_count_of_another():
    begun, may_end = threading.Event(), threading.Event()

    class SlowlyRead(list):
        def __getitem__(self, index):
            begun.set()
            may_end.wait(60)
            return super().__getitem__(index)

    counts = Count(HOST, SlowlyRead([flavor(1)])), Count(HOST, [flavor(1)])
    one, other = (threading.Thread(target=lambda each=each: each.catalogue) for each in counts)
    one.start()
    assert begun.wait(60)
    other.start()
    other.join(10)
    waits = other.is_alive()
    may_end.set()
    one.join()
    assert not waits


def test_flavors_whose_guests_need_the_same_are_counted_once():
    count = Count(HOST, [flavor(1), replace(flavor(1), name="other")])
    one, other = count.catalogue.flavors
    assert count.room(one) is count.room(other)


def test_each_file_of_flavors_that_is_read_has_a_version_of_its_own():
    files = [(Flavor(vcpus=1, memory_mb=512),)]
    counts = Counts(lambda: files[0])
    versions = [counts.version]
    for number in range(1024, 8192, 1024):
        del files[0]  # what is read next may lie at its address
        files.append((Flavor(vcpus=1, memory_mb=number),))
        versions.append(counts.version)
    assert counts.version == versions[-1]
    assert len(set(versions)) == len(versions)
