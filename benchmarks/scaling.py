"""The time of a claim on small and large hosts, in one process, with one caller, on SQLite."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from statistics import median
from uuid import uuid4

from benchmarks import agents
from benchmarks.bench import Bench
from benchmarks.figure import Figure
from rtagent.claims import abort_instance_claim, instance_claim
from rtagent.embedded import EmbeddedNode
from rtagent.model.base import Value
from rtagent.model.change import Call
from rtagent.model.request import BuildRequest, Flavor, Instance
from rtagent.rpc.claim_endpoint import MAX_CLAIMS
from rtagent.virt.libvirt.hypervisor import LibvirtHypervisor
from rtagent.virt.simulate import Machine, host_uri

#: A size is at most so many times slower than the fastest.
TARGET = 1.5
VF = {"vendor_id": "8086", "product_id": "154c"}
PCI = {
    "device_spec": json.dumps([VF]),
    "alias": json.dumps({"name": "vf", "device_type": "type-VF", **VF}),
}
#: The virtual functions of a network card.
VFS = 128


class Host(Value, frozen=True, kw_only=True):
    """A host to claim on.

    :ivar config: options of its agent, by group. :ivar live: the claims that it has already.
    :ivar extra_specs: of the claims that are measured.
    """

    machine: Machine = agents.MACHINE
    config: Mapping[str, Mapping[str, object]] = {}
    live: int = 0
    extra_specs: Mapping[str, str] = {}


def by_claims(bench: Bench) -> Iterator[Figure]:
    """claim_scaling_claims: p50 on hosts with 10 to 10,000 live claims: the slowest against the
    fastest."""
    yield _compared(
        bench, "claim_scaling_claims", [Host(live=live) for live in (10, 100, 1000, 10_000)]
    )


def by_cpus(bench: Bench) -> Iterator[Figure]:
    """claim_scaling_cpus: the same of claims with a host CPU of their own, on hosts with 8 to 512
    CPUs, half of which are taken."""
    yield _compared(bench, "claim_scaling_cpus", [_pinned(cpus) for cpus in (8, 64, 512)])


def by_devices(bench: Bench) -> Iterator[Figure]:
    """claim_scaling_devices: the same of claims of a virtual function, on hosts with 256 and 2,048,
    and of plain claims on a host with none."""
    yield _compared(
        bench, "claim_scaling_devices", [Host(), *(_with_functions(n) for n in (256, 2048))]
    )


def _pinned(cpus: int) -> Host:
    dedicated = {"compute": {"cpu_dedicated_set": f"0-{cpus - 1}"}}
    machine = Machine(hostname="bench", sockets=2, cores=cpus // 4, threads=2)
    pinned = {"hw:cpu_policy": "dedicated"}
    return Host(machine=machine, config=dedicated, live=cpus // 2, extra_specs=pinned)


def _with_functions(number: int) -> Host:
    machine = Machine(hostname="bench", nics=number // VFS, vfs=VFS)
    return Host(machine=machine, config={"pci": PCI}, extra_specs={"pci_passthrough:alias": "vf:1"})


def _compared(bench: Bench, name: str, hosts: Sequence[Host]) -> Figure:
    """Return the p50 of the slowest host, with that of the fastest as floor. The hosts take turns,
    so that they are measured under the same conditions."""
    with ExitStack() as stack:
        nodes = [_node(bench, host, stack) for host in hosts]
        taken: list[list[float]] = [[] for _ in hosts]
        for _ in range(bench.rounds(300)):
            for host, node, times in zip(hosts, nodes, taken, strict=True):
                times.append(_seconds(node, host))
    typical = [median(times) * 1000 for times in taken]
    return Figure(name=name, value=max(typical), unit="ms", floor=min(typical), target=TARGET)


def _node(bench: Bench, host: Host, stack: ExitStack) -> EmbeddedNode:
    directory = bench.directory()
    file = agents.host_file(directory, 0, host.machine)
    hypervisor = LibvirtHypervisor(host_uri(file), str(directory))
    stack.callback(hypervisor.stop)
    node = stack.enter_context(agents.node(directory, hypervisor, config=host.config))
    node.auditor.run("start")
    builds = [_build(host) for _ in range(host.live)]
    for start in range(0, len(builds), MAX_CLAIMS):
        node.tracker.create_all(instance_claim, builds[start : start + MAX_CLAIMS])
    claims = len(node.tracker.snapshot().claims)
    if claims != host.live:
        raise RuntimeError(f"{claims} of {host.live} claims were granted on {host}")
    return node


def _seconds(node: EmbeddedNode, host: Host) -> float:
    """Return the seconds of a claim. Its end is not measured."""
    call, request = _build(host)
    began = time.perf_counter()
    node.tracker.create(instance_claim, call, request)
    taken = time.perf_counter() - began
    end = Call(method="abort_instance_claim", operation_id=str(uuid4()), digest="bench")
    node.tracker.execute(abort_instance_claim, end, call.operation_id)
    return taken


def _build(host: Host) -> tuple[Call, BuildRequest]:
    flavor = Flavor(vcpus=1, memory_mb=64, extra_specs=host.extra_specs)
    instance = Instance(uuid=str(uuid4()), flavor=flavor)
    call = Call(method="instance_claim", operation_id=str(uuid4()), digest="bench")
    return call, BuildRequest(instance=instance)
