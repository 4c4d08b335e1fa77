"""The daemon's log: its lines, and that no call waits for its reader."""

import fcntl
import os
import select
import uuid
from collections.abc import Iterator
from pathlib import Path

import oslo_messaging
import pytest
from oslo_context.context import RequestContext

from rtagent.errors import InvalidRequest, NodeNotFound
from rtagent.rpc.client import AgentAPI
from tests.servers.daemon import Daemon, wait_until

FORGED = "2030-01-01 00:00:00.000 1 ERROR rtagent [-] forged"
CONTEXT = RequestContext(user_id="tester", roles=["operator"], overwrite=False)
#: A configuration file of `logging`.
LOG_CONFIG = """
[loggers]
keys = root
[handlers]
keys = file
[formatters]
keys = plain
[logger_root]
level = INFO
handlers = file
[handler_file]
class = FileHandler
args = ("{}",)
formatter = plain
[formatter_plain]
format = other: %(message)s
"""
#: The size in bytes of the smallest pipe.
PAGE = 4096


@pytest.fixture
def daemon(tmp_path, rabbitmq) -> Iterator[Daemon]:
    made = Daemon(tmp_path, rabbitmq.transport_url)
    made.configure({"DEFAULT": {"host": f"agent-{uuid.uuid4()}", "debug": True}})
    yield made
    made.close()


def instance() -> dict:
    return {"uuid": str(uuid.uuid4()), "flavor": {"vcpus": 1, "memory_mb": 16, "root_gb": 0}}


def unread_pipe(path: Path) -> int:
    """Make a pipe that has a reader, which does not read. :returns: its descriptor."""
    os.mkfifo(path)
    reader = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, PAGE)
    return reader


def test_an_unread_pipe_stops_neither_calls_nor_audits_nor_the_end(daemon, transport):
    reader = unread_pipe(daemon.log)
    try:
        daemon.start().wait_ready()
        agent = AgentAPI(transport, daemon.host, timeout=30)
        for _ in range(20):  # each is several lines at this level
            claim = agent.instance_claim(CONTEXT, instance())
            agent.release_claim(CONTEXT, claim["uuid"])
        assert agent.update_available_resource(CONTEXT)["complete"]
        assert daemon.read("health")["status"] == "pass"
        assert os.read(reader, 2 * PAGE)
        [waited], _, _ = select.select([reader], [], [], 60)
        assert os.read(waited, 2 * PAGE), "the pipe was full, and its writer waited"
        assert daemon.terminate() == 0
    finally:
        os.close(reader)


def test_callers_forge_no_lines_and_long_names_are_cut(daemon, transport):
    daemon.start().wait_ready()
    agent = AgentAPI(transport, daemon.host, timeout=30)
    with pytest.raises(NodeNotFound):
        agent.get_node(CONTEXT, node=f"x\n{FORGED}\x1b[2J\u202e")
    odd = RequestContext(user_id=f"y\n{FORGED}", project_id="p" * 100_000, overwrite=False)
    daemon.wait_logged(r"get_node: node x\n2030")
    with pytest.raises(NodeNotFound):
        agent.get_node(odd, node="z")

    before = daemon.log.stat().st_size
    target = oslo_messaging.Target(topic="rtagent", server=daemon.host, version="1.0")
    client = oslo_messaging.get_rpc_client(transport, target)
    client.cast({}, "m" * 100_000)  # which the agent refuses today before a library quotes it
    client.cast({}, f"n\n{FORGED}")
    with pytest.raises(InvalidRequest):
        client.call(CONTEXT, "get_node", **{f"k\n{FORGED}": "v" * 500_000})
    daemon.wait_logged("get_node: invalid request")

    lines = daemon.log.read_text().splitlines()
    assert not [line for line in lines if line.startswith("2030")]
    assert all(line.isprintable() for line in lines)
    assert daemon.log.stat().st_size - before < 100_000

    other = daemon.directory / "other.log"
    log_config = daemon.directory / "logging.conf"
    log_config.write_text(LOG_CONFIG.format(other))
    daemon.configure({"DEFAULT": {"log_config_append": log_config}})
    daemon.reload()
    wait_until(lambda: other.exists() and "was reloaded" in other.read_text())
    with pytest.raises(NodeNotFound):
        agent.get_node(CONTEXT, node=f"x\n{FORGED}")
    assert daemon.terminate() == 0
    lines = other.read_text().splitlines()
    assert all(line.startswith("other: ") and line.isprintable() for line in lines)
    assert [line for line in lines if FORGED in line]
    assert lines[-1] == "other: stopped", "nothing is lost at the end"
