"""Whose nodes are, on every kind of database."""

from datetime import timedelta

from sqlalchemy import Engine

from rtagent.db.host_records import NodeHosts
from rtagent.model.node import NodeHost
from tests.support.hosts import NOON, uid
from tests.support.trackers import started


def test_a_node_is_of_the_host_that_registered_or_reported_it(engine: Engine):
    hosts, known = NodeHosts(engine), started(engine, "cn1", 0).snapshot().node
    assert hosts.registered(known.uuid) == NodeHost(host="cn1", epoch=1)
    nodes = [uid() for _ in range(4)]
    for second, node in enumerate(nodes):
        forgotten = hosts.record(node, "cn1", NOON + timedelta(seconds=second), most=3)
    assert list(forgotten) == nodes[:1]
    assert hosts.record(nodes[1], "cn2", NOON, most=3) == []
    assert [hosts.recorded(node) for node in nodes] == [None, "cn2", "cn1", "cn1"]
    assert hosts.registered(nodes[1]) is None
