"""RAMWeigher, CPUWeigher, DiskWeigher and PCIWeigher."""

import pytest

from rtagent.conf.filter_scheduler import FilterOptions
from rtagent.scheduler.weighers import CPUWeigher, DiskWeigher, PCIWeigher, RAMWeigher
from tests.support.host_states import fleet_node, host_state
from tests.support.scheduling import raw, weights

FIELDS = [(RAMWeigher, "free_ram_mb"), (DiskWeigher, "free_disk_mb")]


@pytest.mark.parametrize(("weigher", "field"), FIELDS)
def test_more_that_is_free_is_better_and_0_is_the_worst(weigher, field):
    hosts = [host_state("a", **{field: 300}), host_state("b", **{field: 400})]

    assert weights(weigher, hosts) == {"b": 1.0, "a": 0.75}


@pytest.mark.parametrize(("weigher", "field"), FIELDS)
def test_less_than_nothing_counts_as_nothing(weigher, field):
    hosts = [host_state("a", **{field: -900}), host_state("b", **{field: 0})]

    assert weights(weigher, [*hosts, host_state("c", **{field: 1})]) == {"c": 1, "a": 0, "b": 0}
    assert weights(weigher, hosts) == {"a": 0, "b": 0}


@pytest.mark.parametrize(("weigher", "field"), FIELDS)
def test_negative_multiplier_stacks(weigher, field):
    key = weigher.multiplier_key
    hosts = [host_state("a", **{field: 300}), host_state("b", **{field: 400})]

    found = weights(weigher, hosts, FilterOptions(**{key: -2.0}))

    assert list(found.items()) == [("a", -1.5), ("b", -2.0)]


def test_free_vcpus_are_counted_with_the_ratio():
    host = host_state(vcpus_total=4, vcpus_used=3, cpu_allocation_ratio=2.5)
    promised = host_state("b", vcpus_total=4, vcpus_used=20)

    assert raw(CPUWeigher, [host, promised]) == [7.0, -16.0]
    assert weights(CPUWeigher, [host, promised]) == {"cn1": 1.0, "b": 0.0}


def test_hosts_without_devices_are_preferred_whatever_is_requested():
    plain, cards = host_state("plain"), host_state("cards", fleet_node())
    partly = host_state("partly", fleet_node(4))

    assert [plain.available_devices, cards.available_devices] == [0, 32]
    assert partly.available_devices == 31
    assert raw(PCIWeigher, [plain, cards, partly]) == [100, 68, 69]
    assert list(weights(PCIWeigher, [cards, partly, plain])) == ["plain", "partly", "cards"]


def test_available_devices_are_those_of_the_pools():
    host = host_state("partly", fleet_node(8))

    assert host.available_devices == sum(pool["count"] for pool in host.pci_stats) == 30


def test_hosts_with_very_many_devices_are_not_distinguished():
    hosts = [host_state(str(number), available_devices=number) for number in (98, 99, 500)]

    assert raw(PCIWeigher, hosts) == [2, 1, 1]
