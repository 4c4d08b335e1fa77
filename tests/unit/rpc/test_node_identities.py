"""Whose nodes agents may report, whichever agent is heard first after a scheduler was started."""

from pathlib import Path

import pytest
from sqlalchemy import update

from rtagent.db.engine import open_engine
from rtagent.db.host_records import NodeHosts
from rtagent.db.schema import compute_nodes, metadata
from rtagent.errors import InvalidRequest
from rtagent.rpc.errors import SignatureInvalid
from rtagent.rpc.node_identities import MAX_NODES, NodeIdentities
from rtagent.rpc.trust.access import Caller
from rtagent.scheduler.report_documents import DeleteInstanceInfo, UpdateHostState
from tests.support.host_states import node_named
from tests.support.hosts import NOON, ManualClock, uid
from tests.support.trackers import started

UNSIGNED = Caller(name="x", roles=frozenset())


class Schedulers:
    """The schedulers of one database. :ivar keys: hosts of known keys. :ivar dropped: nodes."""

    def __init__(self, directory: Path) -> None:
        self.engine, self.clock = open_engine(f"sqlite:///{directory}/db.sqlite", 5), ManualClock()
        metadata.create_all(self.engine)
        self.keys, self.dropped = {"cn1", "cn2"}, list[str]()
        self.restart()

    def restart(self) -> None:
        self._identities = NodeIdentities(
            NodeHosts(self.engine), self.keys.__contains__, self.dropped.append, self.clock
        )

    def report(
        self, key: str | None, node: object, epoch: object = 1, host: str | None = None
    ) -> None:
        """Both kinds of messages of an agent, with the key of a host."""
        self.clock.advance(1)
        caller = UNSIGNED
        if key is not None:
            caller = Caller(name=f"agent-{key}", roles=frozenset(), proved=True, host=key)
        name = host or key or "cn1"
        report = {"node": {"host": name, "uuid": node}, "epoch": epoch}
        self._identities(caller, "update_host_state", UpdateHostState(report=report))
        if isinstance(node, str) and isinstance(epoch, int):
            message = DeleteInstanceInfo(
                host=name, node_uuid=node, epoch=epoch, revision=1, instance_uuid=uid()
            )
            self._identities(caller, "delete_instance_info", message)


@pytest.fixture
def schedulers(tmp_path: Path) -> Schedulers:
    return Schedulers(tmp_path)


@pytest.fixture
def registered(schedulers: Schedulers) -> str:
    """The node of cn1, which is in ``compute_nodes``, at its first epoch."""
    return started(schedulers.engine, "cn1", 0).snapshot().node.uuid


def test_a_key_is_for_the_reports_of_its_host(schedulers: Schedulers):
    with pytest.raises(SignatureInvalid, match="of the host cn1, and the report is of cn2"):
        schedulers.report("cn1", uid(), host="cn2")
    with pytest.raises(SignatureInvalid):
        schedulers.report("cn1", "no uuid", host="cn2")


@pytest.mark.parametrize("epoch", [0, 1, "malformed", None])
def test_the_node_of_another_host_cannot_be_reported_before_its_agent_is_heard(
    schedulers: Schedulers, registered: str, epoch: object
):
    with pytest.raises(SignatureInvalid, match=f"{registered} is of cn1: .* revoke the key of cn1"):
        schedulers.report("cn2", registered, epoch)
    schedulers.report("cn1", registered)


def test_the_first_host_that_reports_a_node_has_it_also_after_a_restart(schedulers: Schedulers):
    node = uid()
    schedulers.report("cn1", node)
    for _ in range(2):
        with pytest.raises(SignatureInvalid, match=f"{node} is of cn1"):
            schedulers.report("cn2", node)
        schedulers.restart()
    schedulers.report("cn1", node)


def test_a_node_that_its_agent_registers_is_no_longer_of_who_reported_it(schedulers: Schedulers):
    node = node_named("cn1").uuid
    schedulers.report("cn2", node)
    started(schedulers.engine, "cn1", 0)
    schedulers.report("cn1", node)
    with pytest.raises(SignatureInvalid):
        schedulers.report("cn2", node)


def test_a_host_without_a_key_loses_its_nodes_to_the_next(schedulers: Schedulers):
    node = uid()
    schedulers.report("cn1", node)
    schedulers.keys.remove("cn1")
    schedulers.report("cn2", node)
    schedulers.keys.add("cn1")
    with pytest.raises(SignatureInvalid):
        schedulers.report("cn1", node)


def test_a_renamed_host_keeps_the_node_that_it_registered(schedulers: Schedulers, registered: str):
    schedulers.report("cn1", registered)
    with schedulers.engine.begin() as connection:
        connection.execute(update(compute_nodes).values(host="cn2"))
    schedulers.report("cn2", registered)
    with pytest.raises(SignatureInvalid, match="is of cn2"):
        schedulers.report("cn1", registered)


@pytest.mark.parametrize("key", ["cn1", None])
def test_an_epoch_is_at_most_the_one_in_the_database(
    schedulers: Schedulers, registered: str, key: str | None
):
    with pytest.raises(InvalidRequest, match=r"\$.report.epoch: is 2147483647, and .* has 1 for"):
        schedulers.report(key, registered, 2**31 - 1)
    schedulers.report(key, registered, 1)
    with schedulers.engine.begin() as connection:
        connection.execute(update(compute_nodes).values(epoch=2))
    schedulers.report(key, registered, 2)
    with pytest.raises(InvalidRequest):
        schedulers.report(key, registered, 3)


def test_the_first_of_too_many_nodes_of_a_host_is_forgotten(schedulers: Schedulers):
    nodes = [uid() for _ in range(MAX_NODES + 1)]
    for node in nodes:
        schedulers.report("cn1", node)
    assert schedulers.dropped == nodes[:1]
    schedulers.report("cn1", nodes[0])
    assert schedulers.dropped == nodes[:2]
    schedulers.report("cn2", nodes[1])
    with pytest.raises(SignatureInvalid):
        schedulers.report("cn2", nodes[2])


def test_what_has_no_signature_is_not_recorded(schedulers: Schedulers):
    node = uid()
    schedulers.report(None, node)
    schedulers.report("cn2", node)
    schedulers.report(None, node, host="cn7")


def test_a_removed_node_is_of_nobody(schedulers: Schedulers, registered: str):
    with schedulers.engine.begin() as connection:
        connection.execute(update(compute_nodes).values(deleted_at=NOON))
    schedulers.report("cn2", registered, 7)
