"""Claims on real Linux: threads are confined to their CPUs, memory is in the assigned pages."""

from lxml import etree

from lab.machine import NVME
from rtagent.model.cpuset import parse_cpu_spec
from rtagent.rpc import replies
from rtagent.virt.libvirt.given_devices import given_devices
from tests.lab.guests import create, granted
from tests.lab.pci import ALIAS, devices, driver, functions, offering
from tests.lab.rack import CONTEXT, Served, wait_until
from tests.support.hosts import uid

#: Name and CPUs of each thread, one per line.
_THREADS = """
for task in /proc/$(cat /run/libvirt/qemu/"$0".pid)/task/*; do
    echo "$(cat $task/comm):$(sed -n 's/^Cpus_allowed_list:\\t//p' $task/status)"
done
"""
_FREE = "/sys/devices/system/node/node{}/hugepages/hugepages-2048kB/free_hugepages"


def threads(host: Served, domain: str) -> dict[str, frozenset[int]]:
    """Return the CPUs on which each thread of a domain may run, by its name."""
    lines = host.output("sh", "-c", _THREADS, domain).splitlines()
    return {name: parse_cpu_spec(cpus) for name, cpus in (line.rsplit(":", 1) for line in lines)}


def live(host: Served, domain: str) -> etree._Element:
    """Return the document of a running domain."""
    return etree.fromstring(host.output("virsh", "dumpxml", domain))


def free_pages(host: Served, cell: int) -> int:
    return int(host.output("cat", _FREE.format(cell)))


def pinned_as_granted(host: Served, claim: replies.Claim) -> None:
    """Check the CPUs of each thread of the guest, as Linux reports them."""
    there, topology = threads(host, claim.owner_id), claim.numa_topology
    (cell,) = topology.cells
    assert {there[f"CPU {vcpu}/TCG"] for vcpu in (0, 1)} == {
        frozenset({cpu}) for cpu in cell.cpu_pinning.values()
    }
    assert there["qemu-system-x86"] == topology.emulator_pcpus


def test_guest_runs_on_its_assigned_cpus_and_pages(host: Served):
    owner = uid()
    claim = host.claim(owner, cpu_policy="dedicated", mem_page_size="2MB")
    host.api.activate_claim(CONTEXT, claim["uuid"])
    given = granted(claim)
    (cell,) = given.numa_topology.cells
    before = free_pages(host, cell.id)

    create(host, claim)

    pinned_as_granted(host, given)
    assert before - free_pages(host, cell.id) == 128 // 2
    host.audit()
    (held,) = host.claims()
    assert (held["uuid"], held["state"], held["suspect"]) == (claim["uuid"], "active", None)
    assert host.read("/drift")["drift"] == host.read("/orphans")["orphans"] == []


def test_guest_on_other_cpus_drifts(host: Served):
    owner = uid()
    claim = host.claim(owner, cpu_policy="dedicated", numa_nodes="1")
    create(host, claim)
    (cell,) = granted(claim).numa_topology.cells
    own = set(cell.cpu_pinning.values())
    other = min({2, 3, 4, 5, 6, 7} - own)

    host.output("virsh", "vcpupin", owner, "0", str(other))
    host.output("virsh", "emulatorpin", owner, str(other))
    host.audit()

    assert {drift["owner_id"] for drift in host.read("/drift")["drift"]} == {owner}
    with_it = host.claim(uid(), cpu_policy="dedicated")["numa_topology"]["cells"]
    assert other not in {cpu for cell in with_it for cpu in cell["cpu_pinning"].values()}


def test_guest_has_its_assigned_virtual_function(host: Served):
    with offering(host, NVME, device_type="type-VF"):
        functions(host, 2)
        wait_until(lambda: len(devices(host)) == 3)
        owner = uid()
        claim = host.claim(owner, devices=f"{ALIAS}:1", cpu_policy="dedicated", mem_page_size="2MB")
        host.api.activate_claim(CONTEXT, claim["uuid"])
        (function,), (cell,) = granted(claim).pci, granted(claim).numa_topology.cells
        assert cell.id == function.numa_node == 1
        before = free_pages(host, cell.id)

        # On this machine type a guest can see the cell of a device.
        create(host, claim, "q35")

        assert driver(host, function.address) == "vfio-pci"
        assert given_devices(live(host, owner)).addresses == {function.address}
        pinned_as_granted(host, granted(claim))
        assert before - free_pages(host, cell.id) == 128 // 2
        host.audit()
        assert host.read("/drift")["drift"] == host.read("/orphans")["orphans"] == []
        assert devices(host)[function.address]["status"] == "allocated"
        host.output("virsh", "destroy", owner)
        functions(host, 0)
