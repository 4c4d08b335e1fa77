"""Selections of hosts whose devices are in Placement: some candidate of many fits."""

import itertools
import re
from contextlib import contextmanager

import pytest
from msgspec.structs import replace

from rtagent.conf.scheduler import SchedulerOptions
from rtagent.errors import PlacementConflict
from rtagent.model.provider_names import device_suffix, provider_uuid
from rtagent.scheduler.errors import NoValidHost
from rtagent.scheduler.ports import Candidates, Written
from rtagent.scheduler.selecting import MAX_CONFLICTS
from tests.support.device_states import device_host, policy
from tests.support.host_states import host_state
from tests.support.hosts import uid
from tests.support.pci_hosts import ALIASES, gpu, record
from tests.support.scheduling import HostsInMemory, scheduler, spec

#: Eight GPUs, four on each of two cells.
GPUS = tuple(f"0000:{bus:02x}:00.0" for bus in range(0x10, 0x18))
GPU_CLASS = "CUSTOM_PCI_10DE_13F1"
#: The same GPUs by several names.
NAMED = dict.fromkeys(("gpu", "gpu-1", "a gpu", "g" * 70), ALIASES["gpu"])
NAMED = {name: replace(alias, name=name) for name, alias in NAMED.items()}
OPTIONS = SchedulerOptions(pci_in_placement=True, aliases=NAMED)


class GpuPlacement:
    """Placement with the GPUs of one host: its candidates are in the order of the addresses.

    :ivar full: it refuses what is written. :ivar refused: how often it has.
    """

    def __init__(self, host):
        self.full, self.refused = False, 0
        node, placement = host.replica.node, host.replica.policy.placement
        self.root = host.uuid
        self.gpus = [provider_uuid(node, placement, device_suffix(address)) for address in GPUS]

    @contextmanager
    def allocation_candidates(self, query, timeout):
        groups = [name.removeprefix("resources") for name, _ in query if "resources_" in name]
        assert all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", group) for group in groups)
        own = (part.split(":") for part in dict(query)["resources"].split(","))
        resources = {name: int(number) for name, number in own}
        chosen = itertools.permutations(self.gpus, len(groups))
        requests = tuple(self._candidate(resources, groups, gpus) for gpus in chosen)
        yield Candidates(requests=requests, version="1.39")

    def _candidate(self, resources, groups, gpus):
        parts = {uuid: {"resources": {GPU_CLASS: 1}} for uuid in gpus}
        parts[self.root] = {"resources": resources}
        mappings = {group: [uuid] for group, uuid in zip(groups, gpus, strict=True)}
        return {"allocations": parts, "mappings": {"": [self.root], **mappings}}

    def write(self, request):
        if self.full:
            self.refused += 1
            raise PlacementConflict("another request was faster")
        written = {"allocations": request.allocations, "before": {}, "generation": 1}
        return Written(consumer_uuid=request.consumer_uuid, **written)

    def undo(self, written):
        pass


def eight_gpus():
    devices = record(gpu(address, number // 4) for number, address in enumerate(GPUS))
    pci = replace(policy(report_in_placement=True), aliases=NAMED)
    return device_host(devices, pci=pci)


def gpus(number):
    return {"pci_passthrough:alias": f"gpu:{number}"}


def selected(state, number, instances=1, **extra_specs):
    """Return the GPUs that the instances get on this host. :param number: for one instance."""
    host = host_state("cn1", state)
    hosts = HostsInMemory([host])
    asked = spec(1, 512, 0, extra_specs={**gpus(number), **extra_specs})
    chooser = scheduler(hosts, options=OPTIONS, placement=GpuPlacement(host))
    chooser.select_destinations(asked, [uid() for _ in range(instances)])
    return [{device.address for device in claim.pci} for claim in hosts.assumed.values()]


@pytest.mark.parametrize("number", [2, 4])
def test_the_instances_of_one_request_get_all_devices_of_a_host(number):
    given = selected(eight_gpus(), number, len(GPUS) // number)
    assert sorted(address for addresses in given for address in addresses) == list(GPUS)


@pytest.mark.parametrize("asked", ["gpu:1,gpu:1", "gpu:2,gpu-1:1", "a gpu:2", f"{'g' * 70}:1"])
def test_placement_is_asked_for_the_devices_of_any_alias(asked):
    number = sum(int(part.partition(":")[2]) for part in asked.split(","))
    [given] = selected(eight_gpus(), number, **{"pci_passthrough:alias": asked})
    assert given == {*GPUS[:number]}


def test_devices_are_on_the_cell_that_has_cpus_to_pin():
    state = eight_gpus()
    numa = replace(state.policy.numa, cpu_dedicated_set=frozenset({4, 5, 6, 7}))
    state = replace(state, policy=replace(state.policy, numa=numa))
    near = {"hw:cpu_policy": "dedicated", "hw:pci_numa_affinity_policy": "required"}
    assert selected(state, 2, **near) == [{*GPUS[4:6]}]


def test_a_host_that_placement_knows_to_be_full_is_given_up_before_all_candidates_are_written():
    host = host_state("cn1", eight_gpus())
    placement, asked = GpuPlacement(host), spec(1, 512, 0, extra_specs=gpus(3))
    placement.full = True
    chooser = scheduler(HostsInMemory([host]), options=OPTIONS, placement=placement)
    with pytest.raises(NoValidHost, match="another request was faster"):
        chooser.select_destinations(asked, [uid()])
    assert placement.refused == MAX_CONFLICTS
