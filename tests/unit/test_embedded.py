"""Opening a node: the example of the docstring, identity, policy, and what closing releases."""

import doctest
import json
from decimal import Decimal

import pytest
from oslo_config import cfg

import rtagent.embedded
from rtagent.claims import instance_claim
from rtagent.conf import load
from rtagent.embedded import open_node
from rtagent.errors import IdentityError, NodeNotReady, StoreUnavailable, WriterFenced
from rtagent.identity.enrollment import Claimant
from rtagent.identity.node_identity import GivenNodeIdentity
from rtagent.model.node import Node, Writer
from rtagent.model.provider_names import device_suffix
from rtagent.placement.adoption import Adoption, AdoptionFile, adoption_of
from rtagent.testing.failpoints import FailingStore
from rtagent.testing.hypervisor import FakeHypervisor
from rtagent.testing.memory_store import MemoryStore
from tests.support.hosts import TOPOLOGY, ManualClock, call, request, uid
from tests.support.pci_hosts import GPU_0, GPU_IDS, gpu
from tests.support.provider_files import CLASS, TRAIT, entry, write


@pytest.fixture
def make_settings(tmp_path):
    """Makes settings from options of [DEFAULT], and text for other groups."""

    def make(more="", **options):
        file = tmp_path / "rtagent.conf"
        paths = {"state_path": tmp_path / "state", "lock_path": tmp_path, "host": "cn1"}
        lines = "".join(f"{name} = {value}\n" for name, value in {**paths, **options}.items())
        file.write_text(f"[DEFAULT]\n{lines}{more}")
        return load.read(load.parse(cfg.ConfigOpts(), ["--config-file", str(file)], "embedder"))

    return make


@pytest.fixture
def hypervisor():
    return FakeHypervisor(hostname="hv1", host_uuid=uid(11))


def test_example_of_the_docstring_works(make_settings, hypervisor):
    parts = {"hypervisor": hypervisor, "store": MemoryStore(), "clock": ManualClock()}
    values = {"settings": make_settings(), "request": request(), "call": call()}
    names = {"open_node": open_node, **parts, **values}
    (example,) = doctest.DocTestFinder(recurse=False).find(open_node, globs=names)

    result = doctest.DocTestRunner().run(example)

    assert (result.failed, result.attempted) == (0, 3)


def test_every_example_of_the_module_is_run_by_the_test_above():
    found = doctest.DocTestFinder().find(rtagent.embedded)

    assert [test.name for test in found if test.examples] == ["rtagent.embedded.open_node"]


def test_node_is_that_of_the_settings_and_the_hypervisor(make_settings, hypervisor, tmp_path):
    with open_node(make_settings(), hypervisor, MemoryStore(), ManualClock()) as node:
        uuid = (tmp_path / "state" / "compute_id").read_text().strip()

        assert (node.node.uuid, node.node.host) == (uuid, "cn1")
        assert node.node.hypervisor_hostname == "hv1"
        assert node.auditor.devices is None
        assert node.auditor.run("start").good
        assert node.auditor.devices == ()


def test_closed_node_leaves_the_locks_to_another_process(make_settings, hypervisor):
    store = MemoryStore()
    first = open_node(make_settings(), hypervisor, store, ManualClock())
    first.close()
    first.close()

    with open_node(make_settings(), hypervisor, store, ManualClock()):
        first.tracker.check_position()
        assert isinstance(first.tracker.fault, WriterFenced)


def test_failed_open_releases_the_locks(make_settings, hypervisor):
    store = FailingStore(MemoryStore())
    store.fail(StoreUnavailable, on=("enroll",))
    with pytest.raises(StoreUnavailable):
        open_node(make_settings(), hypervisor, store, ManualClock())

    open_node(make_settings(), hypervisor, store, ManualClock()).close()


def test_recorded_ratio_is_in_force_until_another_is_applied(make_settings, hypervisor):
    store = MemoryStore()

    def ratios(**options: float) -> tuple[Decimal, Decimal | None]:
        """The ratio in force when the node is open, and the one that is recorded in the end."""
        made = make_settings(**options)
        with open_node(made, hypervisor, store, ManualClock()) as node:
            in_force = node.state.policy.cpu_allocation_ratio
            node.auditor.run("start")
            node.apply(made)
            return in_force, store.load(node.node.uuid).ratios.cpu

    assert ratios(cpu_allocation_ratio=2.5) == (Decimal("2.5"), Decimal("2.5"))
    assert ratios() == (Decimal("2.5"), Decimal("2.5"))
    assert ratios(cpu_allocation_ratio=8.0) == (Decimal("2.5"), Decimal("8.0"))


def test_row_of_the_node_is_written_once_after_the_first_audit(make_settings, hypervisor):
    store, made = FailingStore(MemoryStore()), make_settings()
    with open_node(made, hypervisor, store, ManualClock()) as node:
        node.apply(made)
        assert store.calls["commit"] == 0
        node.auditor.run("start")
        before = store.calls["commit"]

        node.apply(made)
        node.apply(made)

        assert store.calls["commit"] == before + 1


def test_claims_are_refused_before_the_first_audit_of_each_program(make_settings, hypervisor):
    store = MemoryStore()
    for _ in range(2):  # the store of the second one has the host's capacity
        with open_node(make_settings(), hypervisor, store, ManualClock()) as node:
            with pytest.raises(NodeNotReady):
                node.tracker.create(instance_claim, call(), request())
            node.auditor.run("start")
            assert node.tracker.create(instance_claim, call(), request())


def test_given_identity_needs_no_files(make_settings, hypervisor, tmp_path):
    claimant = Claimant(
        node=Node(uuid=uid(7), host="cn1", hypervisor_hostname="hv1"),
        writer=Writer(machine_id="m", boot_id="b", state_path="/s"),
        compute_id="nova's compute_id",
        service_down_time=60,
    )
    identity = GivenNodeIdentity(claimant)
    store = MemoryStore()

    with open_node(make_settings(), hypervisor, store, ManualClock(), identity=identity) as node:
        assert node.node.uuid == uid(7)
        assert not (tmp_path / "state").exists()

    hypervisor.hostname = "elsewhere"
    with pytest.raises(IdentityError):
        open_node(make_settings(), hypervisor, store, ManualClock(), identity=identity)


def test_adopted_providers_stay_in_force_under_new_settings_and_after_a_restart(
    make_settings, hypervisor, tmp_path
):
    store = MemoryStore()
    with open_node(make_settings(), hypervisor, store, ManualClock()) as node:
        node.auditor.run("start")
        node.apply(make_settings())
        adoption = Adoption(node=node.node.uuid, children={"0000:08:00.0": uid(60)})
        AdoptionFile(tmp_path / "state").write(adoption)
        node.adopt(adoption)
        assert adoption_of(node.state) == adoption

        node.apply(make_settings(reserved_host_memory_mb=1024))
        assert adoption_of(node.state) == adoption
        assert node.state.policy.reserved_memory_mb == 1024

    with open_node(make_settings(), hypervisor, store, ManualClock()) as node:
        assert adoption_of(node.state) == adoption


@pytest.fixture
def gpu_settings(make_settings, tmp_path):
    """Makes settings that report GPUs in Placement, with a provider file that has one entry."""

    def make(identification):
        write(tmp_path / "files", "a.yaml", entry(identification, {CLASS: {"total": 2}}, (TRAIT,)))
        pci = f"[pci]\nreport_in_placement = true\ndevice_spec = {json.dumps(GPU_IDS)}\n"
        return make_settings(more=f"{pci}[compute]\nprovider_config_location = {tmp_path}/files\n")

    return make


def offered(node):
    """The suffixes of the providers to which a file adds something."""
    return [each.suffix for each in node.state.policy.placement.additional]


def test_provider_files_follow_the_devices_of_the_host(gpu_settings, hypervisor):
    """An entry for a device is in force while the device is there, and at once after a restart."""
    made = gpu_settings({"name": f"hv1_{device_suffix(GPU_0)}"})
    hypervisor.topology, store = TOPOLOGY, MemoryStore()

    with open_node(made, hypervisor, store, ManualClock()) as node:
        assert node.auditor.run("start").good
        node.apply(made)
        assert offered(node) == []
        hypervisor.plug(gpu(GPU_0))
        node.auditor.run("event")
        node.apply(made)
        assert offered(node) == [GPU_0]
    with open_node(made, hypervisor, store, ManualClock()) as node:
        assert offered(node) == [GPU_0]
        hypervisor.unplug(GPU_0)
        node.auditor.run("start")
        node.apply(made)
        assert offered(node) == []


def test_provider_file_with_the_uuid_of_an_adopted_provider(gpu_settings, hypervisor, tmp_path):
    """It is in force together with the adoption, so that nothing is withdrawn in between."""
    made, store = gpu_settings({"uuid": uid(60)}), MemoryStore()
    hypervisor.topology = TOPOLOGY
    hypervisor.plug(gpu(GPU_0))

    with open_node(made, hypervisor, store, ManualClock()) as node:
        node.auditor.run("start")
        adoption = Adoption(node=node.node.uuid, children={device_suffix(GPU_0): uid(60)})
        AdoptionFile(tmp_path / "state").write(adoption)
        assert offered(node) == []
        node.adopt(adoption)
        assert offered(node) == [GPU_0]
    with open_node(made, hypervisor, store, ManualClock()) as node:
        assert offered(node) == [GPU_0]
