"""The records of conductors, on every kind of database."""

import contextlib
import threading

import pytest
from msgspec.structs import replace

from rtagent.db.server_rows import SqlServerStore
from rtagent.errors import StoreUnavailable
from rtagent.model.request import Flavor
from rtagent.model.server import Place, RequestSpec, Server, ServerOperation
from tests.support.hosts import NOON, uid

ME, OTHER = uid(11), uid(12)
SPEC = RequestSpec(flavor=Flavor(vcpus=1, memory_mb=512, extra_specs={"hw:mem_page_size": "2MB"}))


@pytest.fixture
def store(engine) -> SqlServerStore:
    return SqlServerStore(engine)


def server(number=1, **fields):
    """Make a server that an operation runs on."""
    return Server(
        uuid=uid(number),
        name=f"wéb-{number}",
        spec=SPEC,
        created_at=NOON,
        updated_at=NOON,
        **{"vm_state": "building", "operation_uuid": uid(20 + number), **fields},
    )


def operation(number=1, **fields):
    """Make the operation of that server."""
    return ServerOperation(
        uuid=uid(20 + number),
        server_uuid=uid(number),
        kind="build",
        created_at=NOON,
        updated_at=NOON,
        **{"owner": ME, "step": "select", **fields},
    )


def test_records_are_written_and_read(store):
    assert store.begin(operation(), server(), None) == "begun"
    assert store.begin(operation(), server(), None) == "begun"  # its answer was lost
    assert (store.server(uid(1)), store.operation(uid(21))) == (server(), operation())
    assert store.server(uid(2)) is None
    assert store.operation(uid(22)) is None

    place = Place(host="h1", node_uuid=uid(5), claim={"uuid": uid(6), "vcpus": 1})
    built = server(vm_state="active", place=place, operation_uuid=None)
    done = operation(state="done", progress={"a": [1, None]}, error={"error": "E"})
    for _ in range(2):
        assert store.save(done, built)
    assert (store.servers(), store.operations()) == ([built], [done])
    assert store.operations(running=True) == []
    assert store.operations(server_uuid=uid(2)) == []


def test_a_repeated_end_of_an_operation_leaves_what_others_have_written_since(store):
    store.begin(operation(), server(), None)
    done, built = operation(state="done"), server(vm_state="active", operation_uuid=None)
    assert store.save(done, built)
    stopping = replace(operation(), uuid=uid(31), kind="stop")
    store.begin(stopping, replace(built, operation_uuid=uid(31)), built)
    stopped = replace(built, vm_state="stopped")
    assert store.save(replace(stopping, state="done"), stopped)
    assert store.save(done, built)  # its answer was lost
    assert not store.save(operation(step="claim"), built)
    assert store.server(uid(1)) == stopped


def test_a_server_has_one_operation(store):
    assert store.begin(operation(), server(), None) == "begun"
    second = replace(operation(), uuid=uid(31))
    again = server(operation_uuid=uid(31))
    assert store.begin(second, again, None) == "exists"
    assert store.begin(second, again, server()) == "busy"
    assert store.begin(operation(2), server(2), server(2)) == "absent"
    assert store.server(uid(1)) == server()
    built = server(operation_uuid=None, vm_state="active")
    store.save(operation(state="done"), built)
    before = server(operation_uuid=None)  # it was read before the build had ended
    assert store.begin(second, again, before) == "busy"
    assert store.begin(second, again, built) == "begun"


def test_an_operation_has_one_owner(store):
    store.begin(operation(), server(), None)
    seen = store.operation(uid(21))
    assert store.beat(operation())
    assert store.take(seen, OTHER) is None  # its owner lives
    seen = store.operation(uid(21))
    taken = store.take(seen, OTHER)
    assert (taken.owner, taken.epoch) == (OTHER, 2)
    assert store.take(seen, OTHER) == taken  # the answer was lost
    assert store.take(seen, ME) is None
    assert not store.beat(operation())
    assert not store.save(operation(step="claim"), server(vm_state="active"))
    assert store.server(uid(1)) == server()
    assert store.operation(uid(21)) == taken
    nobodys = replace(taken, owner=None)
    assert store.save(nobodys)
    assert not store.beat(nobodys)
    assert store.take(store.operation(uid(21)), ME).epoch == 3
    assert store.take(operation(9), ME) is None


def test_a_deleted_server_leaves_only_calls_that_are_owed(store):
    store.begin(operation(), server(), None)
    store.save(operation(state="done"), server(operation_uuid=None))
    delete = replace(operation(), uuid=uid(31), kind="delete")
    store.begin(delete, server(operation_uuid=uid(31)), server(operation_uuid=None))
    owed = replace(operation(), uuid=uid(32), kind="owed-call", owner=None)
    for _ in range(2):
        assert store.save(replace(delete, state="done"), server(), deleted=True, owed=[owed])
    assert store.servers() == []
    assert store.operations() == [owed]
    for _ in range(2):  # nothing needs its row any more
        assert store.save(replace(owed, state="done"))
    assert store.operations() == []
    assert not store.save(owed)


def test_one_of_many_conductors_takes_an_operation(store):
    store.begin(operation(owner=None), server(), None)
    seen, won = store.operation(uid(21)), list[str]()

    def take(number):
        owner = uid(100 + number)
        with contextlib.suppress(StoreUnavailable):  # a deadlock: another one was first
            if store.take(seen, owner) is not None:
                won.append(owner)

    threads = [threading.Thread(target=take, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert won == [store.operation(uid(21)).owner]
