"""A simulated host with guests, in this process, whose pages are served on a loopback port."""

import itertools
import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from oslo_config import cfg
from prometheus_client import CollectorRegistry

from rtagent.api.address import TcpAddress
from rtagent.api.routes import NO_AUDIT, Sources
from rtagent.api.server import ReadAPI
from rtagent.audit import AuditEnded
from rtagent.bus import CallRefused, StatePublished
from rtagent.claims import activate_claim, instance_claim, release_claim
from rtagent.conf import load
from rtagent.conf.load import read
from rtagent.embedded import SystemClock, open_node
from rtagent.identity.enrollment import Claimant
from rtagent.identity.node_identity import GivenNodeIdentity
from rtagent.model.claim import Claim
from rtagent.model.cpuset import format_cpu_spec
from rtagent.model.node import Node, Writer
from rtagent.model.node_state import NodeState
from rtagent.model.request import BuildRequest, Flavor, Instance
from rtagent.service.page_sources import page_sources
from rtagent.telemetry.timeline import Timeline
from rtagent.testing.memory_store import MemoryStore
from rtagent.virt.libvirt import LibvirtHypervisor
from rtagent.virt.libvirt.guest import apply
from rtagent.virt.libvirt.storage import FileSystem
from rtagent.virt.simulate import Machine, domain_xml, edit, host_uri, simulate
from rtagent.virt.simulate.documents import MDEV_TYPE
from tests.servers.server import free_port
from tests.support.hosts import PINNED, call, uid

GPU = {"vendor_id": "10de", "product_id": "13f1"}
VF = {"vendor_id": "8086", "product_id": "154c", "physical_network": "physnet1"}
NVME = {"vendor_id": "1b36", "product_id": "0010"}
ALIASES = (
    {"name": "gpu", **GPU, "device_type": "type-PCI"},
    {"name": "vf", "vendor_id": "8086", "product_id": "154c", "device_type": "type-VF"},
    {"name": "nvme", **NVME, "device_type": "type-PCI"},
)
SMALL = Machine(sockets=1, cores=1, threads=2, memory_mb=4096, hostname="small.example")
#: A usual host: two sockets of 16 cores, with devices of every kind.
USUAL = Machine(
    sockets=2,
    cores=16,
    threads=2,
    memory_mb=128 * 1024,
    pages={2048: 8192, 1048576: 16},
    gpus=4,
    shared_gpus=2,
    nics=2,
    vfs=8,
    nvmes=4,
    namespaces={"pmem-a": 4096, "pmem-b": 4096},
    hostname="hypervisor-1.example",
)
#: 512 CPUs, 256 PCI devices and 32 virtual GPUs.
LARGE = Machine(
    sockets=2,
    cores=128,
    threads=2,
    cells=8,
    memory_mb=2048 * 1024,
    pages={2048: 16384, 1048576: 64},
    gpus=8,
    shared_gpus=8,
    nics=8,
    vfs=30,
    nvmes=8,
    hostname="large.example",
)


class PageHost:
    """An agent's tracker, auditor and read API.

    :ivar node: with `tracker` and `auditor`. :ivar url: of the first page.
    :ivar file: of the simulated host.
    """

    def __init__(self, directory: Path, machine: Machine = USUAL, **options: object) -> None:
        """:param options: of the agent, as ``group__name``, or of ``[DEFAULT]`` as ``name``."""
        self._directory, self._machine, self._options = directory, machine, options
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.file = self._directory / "host.xml"
        simulate(self.file, self._machine)
        self.hypervisor = LibvirtHypervisor(host_uri(self.file), "/instances", probe=_disk)
        self._stack.callback(self.hypervisor.stop)
        claimant = Claimant(
            node=Node(
                uuid=uid(7),
                host=self._machine.hostname.partition(".")[0],
                hypervisor_hostname=self._machine.hostname,
            ),
            writer=Writer(machine_id="m", boot_id="b", state_path="/s"),
            compute_id="compute",
            service_down_time=60,
        )
        settings = self._settings()
        clock, store = SystemClock(), MemoryStore()
        self.timeline = Timeline(clock)
        self.node = self._stack.enter_context(
            open_node(settings, self.hypervisor, store, clock, identity=GivenNodeIdentity(claimant))
        )
        bus = self.node.tracker.bus
        bus.subscribe(StatePublished, lambda event: self.timeline.changed(event.changes))
        bus.subscribe(CallRefused, lambda event: self.timeline.refused(event.reasons))
        bus.subscribe(AuditEnded, lambda event: self.timeline.audited(event.summary))
        assert self.audit().good
        self.node.apply(settings)
        self.sources = Sources(
            snapshot=lambda: self.node.state,
            stale=lambda: self.node.tracker.stale,
            checks=tuple,
            creation_error=lambda: None,
            registry=CollectorRegistry(),
            allocations=lambda: NO_AUDIT,
            more=page_sources(self.node, store, self.hypervisor, self.timeline.view, clock),
        )
        # A port of the clients' range might be taken while the server is stopped.
        self.address = TcpAddress(free_port())
        self.serve()
        return self

    def __exit__(self, *_: object) -> None:
        self.api.stop()
        self._stack.close()

    def serve(self) -> None:
        """Serve the pages; again on the same port after ``api.stop()``."""
        self.api = ReadAPI(self.address, self.sources, patience=60)
        self.api.start()

    @property
    def url(self) -> str:
        return f"http://{self.address}/"

    @property
    def state(self) -> NodeState:
        return self.node.state

    def document(self, path: str) -> dict[str, Any]:
        """Return a document of the read API."""
        return dict(json.loads(self.sources.answer(path).body))

    def audit(self) -> Any:
        return self.node.auditor.run("test")

    def claim(self, name: str, vcpus: int = 2, memory_mb: int = 1024, **specs: str) -> Claim:
        """Claim resources for a guest. :param specs: extra specs, with ``__`` in place of ``:``."""
        extra = {key.replace("__", ":"): value for key, value in specs.items()}
        instance = Instance(
            uuid=uid(),
            display_name=name,
            project_id="tests",
            flavor=Flavor(
                name="m1", vcpus=vcpus, memory_mb=memory_mb, root_gb=2, extra_specs=extra
            ),
        )
        return self.node.tracker.create(instance_claim, call(), BuildRequest(instance=instance))

    def pinned(self, name: str, vcpus: int = 2, memory_mb: int = 1024, **specs: str) -> Claim:
        """Claim dedicated CPUs."""
        return self.claim(name, vcpus, memory_mb, **_named(PINNED), **specs)

    def run(self, claim: Claim) -> Claim:
        """Start the domain of a claim, and activate the claim."""
        claim = self.node.tracker.change(activate_claim, call("activate_claim"), claim.uuid)
        plain = domain_xml(
            claim.owner_id, vcpus=claim.flavor.vcpus, memory_mb=claim.flavor.memory_mb
        )
        with edit(self.file) as world:
            world.add_domain(apply(plain, claim))
        return claim

    def foreign(self, name: str, vcpus: int = 2, memory_mb: int = 1024) -> None:
        """Start a domain that has no claim."""
        with edit(self.file) as world:
            world.add_domain(domain_xml(uid(), vcpus=vcpus, memory_mb=memory_mb, name=name))

    def release(self, claim: Claim) -> None:
        self.node.tracker.execute(release_claim, call("release_claim"), claim.uuid)

    def _settings(self) -> Any:
        cpus = self._machine.sockets * self._machine.cores * self._machine.threads
        options: dict[str, object] = {
            "host": "page",
            "state_path": self._directory,
            "lock_path": self._directory,
            "reserved_host_memory_mb": 512,
            "cpu_allocation_ratio": 16,
            "devices__enabled_mdev_types": MDEV_TYPE,
            "pci__device_spec": [json.dumps(each) for each in (GPU, VF, NVME)],
            "pci__alias": [json.dumps(each) for each in ALIASES],
            **(_cpu_sets(cpus) if cpus > 4 else {}),
            **self._options,
        }
        groups: dict[str, list[str]] = {}
        for key, value in options.items():
            group, _, name = key.rpartition("__")
            lines = groups.setdefault(group or "DEFAULT", [])
            lines += [
                f"{name} = {each}" for each in (value if isinstance(value, list) else [value])
            ]
        file = self._directory / "page.conf"
        text = (f"[{group}]\n" + "\n".join(lines) for group, lines in groups.items())
        file.write_text("\n".join(text))
        return read(load.parse(cfg.ConfigOpts(), ["--config-file", str(file)], "page"))


def populate(host: PageHost) -> None:
    """Claim something of every kind on a `USUAL` host, which the documentation's picture shows."""
    for number in range(1, 5):
        host.run(host.pinned(f"database-{number}", 4, 8192, hw__mem_page_size="2MB"))
    for number in range(1, 4):
        host.run(host.claim(f"web-{number}", 4, 4096))
    host.run(host.pinned("render-1", 4, 8192, pci_passthrough__alias="gpu:2"))
    host.run(host.pinned("router-1", 2, 2048, pci_passthrough__alias="vf:4"))
    host.run(host.pinned("realtime-1", 3, 4096, hw__cpu_thread_policy="isolate"))
    host.run(host.pinned("cache-1", 2, 4096, hw__mem_page_size="1GB"))
    host.run(host.claim("desktop-1", 2, 4096, resources__VGPU="1"))
    host.run(host.claim("desktop-2", 2, 4096, resources__VGPU="1"))
    host.run(host.pinned("analytics-1", 8, 16384, pci_passthrough__alias="nvme:1"))
    host.pinned("build-1", 4, 4096)
    host.foreign("left-behind", 2, 2048)
    host.audit()


def crowd(host: PageHost, number: int) -> None:
    """Claim for so many guests, most of them small."""
    guests = itertools.cycle(
        (
            lambda name: host.pinned(name, 2, 256),
            lambda name: host.claim(name, 1, 256),
            lambda name: host.claim(name, 1, 256, pci_passthrough__alias="vf:1"),
            lambda name: host.claim(name, 1, 256),
            lambda name: host.claim(name, 1, 128, hw__mem_page_size="2MB"),
            lambda name: host.claim(name, 1, 256),
        )
    )
    for each, make in zip(range(number), guests, strict=False):
        make(f"guest-{each}")


def _cpu_sets(cpus: int) -> dict[str, object]:
    """CPU 0 and its sibling are the host's own, an eighth is shared, the others are dedicated."""
    half = cpus // 2
    cores = set(range(1, half))
    shared = set(range(1, half, 8))
    return {
        f"compute__{name}": format_cpu_spec({*found, *(each + half for each in found)})
        for name, found in (("cpu_shared_set", shared), ("cpu_dedicated_set", cores - shared))
    }


def _named(specs: dict[str, str]) -> dict[str, str]:
    return {key.replace(":", "__"): value for key, value in specs.items()}


def _disk(path: str) -> FileSystem:
    return FileSystem(total=4000 * 1024**3, free=2500 * 1024**3)
