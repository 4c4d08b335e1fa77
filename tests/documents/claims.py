"""Claims of a host whose numbers are in no document."""

from msgspec.structs import replace

from rtagent.model.assignment import AssignedResource
from rtagent.model.claim import Claim
from rtagent.model.device import SRIOV_VF, STANDARD, AssignedDevice
from tests.support.guests import granted
from tests.support.numa_hosts import LARGE, cell, host, topology

_PAGES = {LARGE: 2048}
_WHERE = host(
    topology(cell(40, cores=8, first=600, huge=_PAGES), cell(41, cores=8, first=616, huge=_PAGES)),
    dedicated="604-615,620-631",
    shared="600-603,616-619",
)
_GPU = AssignedDevice(
    address="00c1:08:00.0",
    vendor_id="10de",
    product_id="13f1",
    dev_type=STANDARD,
    request_id="gpu",
    numa_node=40,
)
_PORT = AssignedDevice(
    address="00c1:09:00.1",
    vendor_id="8086",
    product_id="154c",
    dev_type=SRIOV_VF,
    request_id="port",
    requester_id="port",
    source="neutron_port",
    numa_node=41,
    managed=False,
)
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
