"""The identity of a node, proved against a store; its file, and the ids of the machine."""

import stat

import pytest

from rtagent.db.engine import open_engine
from rtagent.db.registry import SqlServiceRegistry
from rtagent.db.schema import metadata
from rtagent.db.store import SqlStore
from rtagent.errors import HypervisorUnavailable, IdentityError, TakeoverPending
from rtagent.identity import machine
from rtagent.identity.enrollment import Claimant
from rtagent.identity.machine import ComputeId
from rtagent.identity.node_identity import GivenNodeIdentity, HostNodeIdentity, IdentityOptions
from rtagent.model.node import Writer
from rtagent.ports import HostIdentity, NullReporter
from rtagent.testing.hypervisor import FakeHypervisor
from rtagent.testing.memory_store import MemoryStore
from tests.support.hosts import NODE, ManualClock, uid

CLOCK = ManualClock()


@pytest.fixture
def hypervisor():
    return FakeHypervisor(hostname="hv1", host_uuid=uid(11))


@pytest.fixture
def database(tmp_path):
    """A store and the service registry of the same database."""
    engine = open_engine(f"sqlite:///{tmp_path}/db.sqlite", 5)
    metadata.create_all(engine)
    return SqlStore(engine), SqlServiceRegistry(engine)


@pytest.fixture
def identity(tmp_path):
    """Makes the identity of a state directory with that name; a test may make it again."""
    made = []

    def make(name="state", *, lock_path=None, **options):
        for before in made:
            before.release()
        paths = {"state_path": str(tmp_path / name), "lock_path": str(lock_path or tmp_path)}
        default = {"host": "host1", "host_ip": "192.0.2.1", "service_down_time": 60, **paths}
        made.append(HostNodeIdentity(IdentityOptions(**{**default, **options}), NullReporter()))
        return made[-1]

    yield make
    for each in made:
        each.release()


def test_file_without_a_record_is_used_for_the_new_node(identity, database, hypervisor, tmp_path):
    """A start was killed after it had written the file, and before its transaction ended."""
    store, _ = database
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "compute_id").write_text(uid(7))

    assert identity().enroll(store, hypervisor, CLOCK).node.uuid == uid(7)


def test_restart_of_the_same_node_raises_the_epoch(identity, database, hypervisor):
    store, _ = database
    first = identity().enroll(store, hypervisor, CLOCK)

    second = identity(host="renamed").enroll(store, hypervisor, CLOCK)

    assert second.epoch == first.epoch + 1
    assert second.node.uuid == first.node.uuid
    assert second.node.host == "renamed"


def test_lost_file_is_not_replaced(identity, database, hypervisor, tmp_path):
    store, _ = database
    uuid = identity().enroll(store, hypervisor, CLOCK).node.uuid
    (tmp_path / "state" / "compute_id").unlink()

    with pytest.raises(IdentityError, match=f"compute_id is missing.* write {uuid} into it"):
        identity().enroll(store, hypervisor, CLOCK)

    assert not (tmp_path / "state" / "compute_id").exists()
    assert store.load(uuid).epoch == 1


def test_copy_of_a_live_node_is_refused_or_takes_over(identity, database, hypervisor, tmp_path):
    store, registry = database
    uuid = identity().enroll(store, hypervisor, CLOCK).node.uuid
    registry.heartbeat("host1", CLOCK.now())
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "compute_id").write_text(uuid)

    copy = identity("copy")
    with pytest.raises(TakeoverPending, match="--take-over"):
        copy.enroll(store, hypervisor, CLOCK)
    registry.heartbeat("host1", CLOCK.now())
    with pytest.raises(IdentityError, match="--take-over"):
        copy.enroll(store, hypervisor, CLOCK)
    assert store.load(uuid).epoch == 1

    assert identity("copy", take_over=True).enroll(store, hypervisor, CLOCK).epoch == 2


def test_enroll_does_the_steps_that_were_not_done(identity, hypervisor, tmp_path):
    """The state directory and the hypervisor are locked before the store is asked."""
    hypervisor.lost = True
    with pytest.raises(HypervisorUnavailable):
        identity().enroll(MemoryStore(), hypervisor, CLOCK)
    assert not (tmp_path / "state" / "compute_id").exists()

    hypervisor.lost = False
    identity().enroll(MemoryStore(), hypervisor, CLOCK)
    assert (tmp_path / "state" / "lock").exists()
    assert (tmp_path / f"rtagent-{uid(11)}.lock").exists()


def test_another_hypervisor_after_a_reconnection_is_refused(identity):
    ours = identity()
    for _ in range(2):
        ours.lock_hypervisor(HostIdentity(hostname="here", host_uuid=""))

    with pytest.raises(IdentityError, match="was here and is elsewhere now"):
        ours.lock_hypervisor(HostIdentity(hostname="elsewhere", host_uuid=""))


def test_state_directory_that_cannot_be_made_is_named(identity, tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(IdentityError, match="file/state cannot be made: Not a directory"):
        identity("file/state").lock_state_directory()


def test_invalid_compute_id_is_refused_before_anything_else(identity, tmp_path):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "compute_id").write_text("garbage")

    with pytest.raises(IdentityError, match="compute_id does not contain a uuid"):
        identity().lock_state_directory()


def test_given_identity_must_be_that_of_the_hypervisor():
    writer = Writer(machine_id="m", boot_id="b", state_path="/s")
    claimant = Claimant(node=NODE, writer=writer, compute_id="id", service_down_time=60)
    store = MemoryStore()

    with pytest.raises(IdentityError, match="but libvirt calls this machine elsewhere"):
        GivenNodeIdentity(claimant).enroll(store, FakeHypervisor(hostname="elsewhere"), CLOCK)

    here = FakeHypervisor(hostname=NODE.hypervisor_hostname)
    assert GivenNodeIdentity(claimant).enroll(store, here, CLOCK).node == NODE


UUID = "11111111-1111-1111-1111-111111111111"
OTHER_UUID = "22222222-2222-2222-2222-222222222222"


def test_file_is_written_once(tmp_path):
    (tmp_path / ".compute_id.new").write_text("1111")  # of a start that was killed
    file = ComputeId(str(tmp_path))
    assert file.read() is None

    file.write(UUID)
    file.write(UUID)
    with pytest.raises(IdentityError, match="another uuid"):
        file.write(OTHER_UUID)

    assert ComputeId(str(tmp_path)).read() == UUID
    assert stat.S_IMODE(file.path.stat().st_mode) & 0o222 == 0o200
    assert [path.name for path in tmp_path.iterdir()] == ["compute_id"]


@pytest.mark.parametrize("content", [None, b"", b"garbage", b"\xff\xfe", UUID[:-1].encode()])
def test_invalid_file_is_refused_with_the_remedy(tmp_path, content):
    file = tmp_path / "compute_id"
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)

    with pytest.raises(IdentityError, match=f"{file} .*write the node's uuid into it"):
        ComputeId(str(tmp_path)).read()


def test_unwritable_state_directory_is_named(tmp_path):
    with pytest.raises(IdentityError, match="missing/compute_id cannot be written"):
        ComputeId(str(tmp_path / "missing")).write(UUID)


def test_writer_is_machine_boot_and_directory(tmp_path):
    (tmp_path / "machine-id").write_text("abc\n")
    (tmp_path / "boot").write_text("def\n")
    (tmp_path / "link").symlink_to(tmp_path)

    found = machine.writer(
        str(tmp_path / "link"), machine_id=tmp_path / "machine-id", boot_id=tmp_path / "boot"
    )

    assert (found.machine_id, found.boot_id, found.state_path) == ("abc", "def", str(tmp_path))


@pytest.mark.parametrize("content", [None, b"\n", b"\xff\xfe", b"9" * 5000])
def test_machine_without_an_id_is_refused(tmp_path, content):
    if content is not None:
        (tmp_path / "machine-id").write_bytes(content)

    with pytest.raises(IdentityError, match=r"machine-id .*systemd-machine-id-setup"):
        machine.writer(str(tmp_path), machine_id=tmp_path / "machine-id")
