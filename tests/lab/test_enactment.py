"""What a claim comes to on a real kernel: threads that stay on their CPUs, real pages."""

from __future__ import annotations

import msgspec

from rtagent.model.cpuset import parse_cpu_spec
from rtagent.rpc import replies
from rtagent.virt.libvirt import guest
from tests.builders import uid
from tests.lab.rack import CONTEXT, Served
from tests.servers import domain_xml

#: Name and CPUs of each thread, one per line.
_THREADS = """
for task in /proc/$(cat /run/libvirt/qemu/"$0".pid)/task/*; do
    echo "$(cat $task/comm):$(sed -n 's/^Cpus_allowed_list:\\t//p' $task/status)"
done
"""
_FREE = "/sys/devices/system/node/node{}/hugepages/hugepages-2048kB/free_hugepages"


def threads(host: Served, domain: str) -> dict[str, frozenset[int]]:
    """The CPUs on which each thread of a domain may run, by its name."""
    lines = host.tell("sh", "-c", _THREADS, domain).splitlines()
    return {name: parse_cpu_spec(cpus) for name, cpus in (line.rsplit(":", 1) for line in lines)}


def free_pages(host: Served, cell: int) -> int:
    return int(host.tell("cat", _FREE.format(cell)))


def test_a_guest_runs_where_and_on_what_it_was_granted(host: Served):
    owner = uid()
    claim = host.claim(owner, cpu_policy="dedicated", mem_page_size="2MB")
    host.api.activate_claim(CONTEXT, claim["uuid"])
    granted = msgspec.convert(claim, replies.Claim, strict=False)
    (cell,) = granted.numa_topology.cells
    before = free_pages(host, cell.id)

    document = guest.apply(domain_xml(owner, owner, 2, 128), granted)
    host.tell("virsh", "create", "--validate", "/dev/stdin", given=document)

    there = threads(host, owner)
    assert {there[f"CPU {vcpu}/TCG"] for vcpu in (0, 1)} == {
        frozenset({cpu}) for cpu in cell.cpu_pinning.values()
    }
    assert there["qemu-system-x86"] == granted.numa_topology.emulator_pcpus
    assert before - free_pages(host, cell.id) == 128 // 2
    host.audit()
    (held,) = host.claims()
    assert (held["uuid"], held["state"], held["suspect"]) == (claim["uuid"], "active", None)
    assert host.read("/drift")["drift"] == host.read("/orphans")["orphans"] == []


def test_a_guest_that_is_pinned_elsewhere_drifts(host: Served):
    owner = uid()
    claim = host.claim(owner, cpu_policy="dedicated", numa_nodes="1")
    granted = msgspec.convert(claim, replies.Claim, strict=False)
    document = guest.apply(domain_xml(owner, owner, 2, 128), granted)
    host.tell("virsh", "create", "--validate", "/dev/stdin", given=document)
    (cell,) = granted.numa_topology.cells
    own = set(cell.cpu_pinning.values())
    other = min({2, 3, 4, 5, 6, 7} - own)

    host.tell("virsh", "vcpupin", owner, "0", str(other))
    host.tell("virsh", "emulatorpin", owner, str(other))
    host.audit()

    assert {drift["owner_id"] for drift in host.read("/drift")["drift"]} == {owner}
    with_it = host.claim(uid(), cpu_policy="dedicated")["numa_topology"]["cells"]
    assert other not in {cpu for cell in with_it for cpu in cell["cpu_pinning"].values()}
