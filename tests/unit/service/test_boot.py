"""What must be proved before anything is written, against stores in memory and in SQLite."""

import pytest
from oslo_config import cfg

from rtagent.conf import load, settings
from rtagent.db import migrate
from rtagent.db.engine import open_engine
from rtagent.db.memory import MemoryServiceRegistry, MemoryStore
from rtagent.db.registry import SqlServiceRegistry
from rtagent.db.store import SqlStore
from rtagent.errors import HypervisorUnavailable, IdentityError
from rtagent.ports import HostIdentity
from rtagent.service.boot import Boot, Stopped
from rtagent.service.inbox import STOP, Inbox
from rtagent.service.notifier import Notifier
from tests.builders import ManualClock, uid
from tests.unit.service.conftest import Notes

HYPERVISOR = HostIdentity(hostname="hv1", host_uuid="")


class Hasty(ManualClock):
    """A clock that moves an hour at each look: nothing is waited for."""

    def monotonic(self):
        self.advance(3600)
        return super().monotonic()


@pytest.fixture(params=["memory", "sqlite"])
def database(request, tmp_path):
    """A store and the registry beside it."""
    if request.param == "memory":
        memory = MemoryStore()
        return memory, MemoryServiceRegistry(memory.disk)
    engine = open_engine(f"sqlite:///{tmp_path}/db.sqlite", 5)
    migrate.sync(engine)
    return SqlStore(engine), SqlServiceRegistry(engine)


@pytest.fixture
def inbox():
    return Inbox()


@pytest.fixture
def boot(tmp_path, inbox):
    """Makes a boot in a state directory of that name."""

    def make(name="state", clock=None, **options):
        directory = tmp_path / name
        directory.mkdir(exist_ok=True)
        options = {"state_path": directory, "host": "host1", "my_ip": "192.0.2.1", **options}
        file = tmp_path / "rtagent.conf"
        lines = "".join(f"{key} = {value}\n" for key, value in options.items())
        file.write_text(f"[DEFAULT]\n{lines}")
        conf = load.parse(cfg.ConfigOpts(), ["--config-file", str(file)], "rtagentd")
        return Boot(settings.read(conf), inbox, Notifier(), clock or ManualClock(), Notes())

    return make


def test_a_new_node_gets_its_file_and_its_record(boot, database, tmp_path):
    store, _ = database

    stored = boot().enroll(store, HYPERVISOR, False)

    assert (tmp_path / "state" / "compute_id").read_text() == f"{stored.node.uuid}\n"
    assert (stored.node.host, stored.node.hypervisor_hostname) == ("host1", "hv1")
    assert store.load(stored.node.uuid) == stored


def test_a_start_that_was_cut_off_before_the_record_goes_on_with_its_file(boot, database, tmp_path):
    store, _ = database
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "compute_id").write_text(uid(7))

    assert boot().enroll(store, HYPERVISOR, False).node.uuid == uid(7)


def test_the_same_node_again_is_a_newer_epoch(boot, database):
    store, _ = database
    first = boot().enroll(store, HYPERVISOR, False)

    second = boot(host="renamed").enroll(store, HYPERVISOR, False)

    assert second.epoch == first.epoch + 1
    assert second.node.uuid == first.node.uuid
    assert second.node.host == "renamed"


def test_a_lost_file_is_not_made_anew(boot, database, tmp_path):
    store, _ = database
    uuid = boot().enroll(store, HYPERVISOR, False).node.uuid
    (tmp_path / "state" / "compute_id").unlink()

    with pytest.raises(IdentityError, match=f"write {uuid} into it"):
        boot().enroll(store, HYPERVISOR, False)

    assert not (tmp_path / "state" / "compute_id").exists()
    assert store.load(uuid).epoch == 1


def test_a_copy_is_refused_while_the_other_is_alive_unless_told_otherwise(boot, database, tmp_path):
    store, registry = database
    uuid = boot().enroll(store, HYPERVISOR, False).node.uuid
    registry.heartbeat("host1", ManualClock().now())
    copy = boot("copy")
    (tmp_path / "copy" / "compute_id").write_text(uuid)

    with pytest.raises(IdentityError, match="--take-over"):
        copy.enroll(store, HYPERVISOR, False)
    assert store.load(uuid).epoch == 1

    assert copy.enroll(store, HYPERVISOR, True).epoch == 2


def test_waiting_repeats_until_it_works(boot):
    answers = iter([HypervisorUnavailable("no"), HypervisorUnavailable("not yet"), "here"])

    def attempt():
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert boot(clock=Hasty()).until("it", attempt) == "here"


def test_waiting_ends_when_the_process_shall_stop(boot, inbox):
    def attempt():
        raise HypervisorUnavailable("no")

    inbox.put(STOP)

    with pytest.raises(Stopped):
        boot().until("it", attempt)


def test_an_error_that_a_repeat_does_not_mend_is_not_waited_for(boot):
    def attempt():
        raise IdentityError("wrong")

    with pytest.raises(IdentityError):
        boot().until("it", attempt)
