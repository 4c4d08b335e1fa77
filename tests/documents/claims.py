"""Claims of a host whose numbers are in no document."""

from msgspec.structs import replace

from rtagent.model.assignment import AssignedResource
from rtagent.model.claim import Claim
from rtagent.model.device import SRIOV_VF
from tests.support.claims import given
from tests.support.guests import granted
from tests.support.numa_hosts import LARGE, cell, host, topology
from tests.support.pci_hosts import VF_IDS

_PAGES = {LARGE: 2048}
_WHERE = host(
    topology(cell(40, cores=8, first=600, huge=_PAGES), cell(41, cores=8, first=616, huge=_PAGES)),
    dedicated="604-615,620-631",
    shared="600-603,616-619",
)
_GPU = given("00c1:08:00.0", request_id="gpu", numa_node=40)
_OF_PORT = {"request_id": "port", "requester_id": "port", "source": "neutron_port"}
_PORT = given("00c1:09:00.1", VF_IDS, dev_type=SRIOV_VF, numa_node=41, managed=False, **_OF_PORT)
_VGPU = AssignedResource(
    parent_addr="00c1:0a:00.0", resource_class="VGPU", identifier="00c1:0a:00.0/nvidia-11/2"
)
_PLACED = granted(
    where=_WHERE,
    cpu_policy="dedicated",
    emulator_threads_policy="isolate",
    mem_page_size="2MB",
    numa_nodes="2",
)

CLAIMS: dict[str, Claim] = {
    "shared": granted(where=_WHERE),
    "placed": replace(_PLACED, pci=(_GPU, _PORT), resources=(_VGPU,)),
}
