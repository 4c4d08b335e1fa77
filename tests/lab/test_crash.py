"""The host goes down under a stream of claims: what was answered is there after the next boot."""

from __future__ import annotations

import base64
import random
from pathlib import Path
from typing import Any

from tests.lab.guests import create
from tests.lab.rack import CONTEXT, FLAVOR, Rack, Served
from tests.stream.caller import Stream, attempt
from tests.stream.deed import Writer
from tests.stream.judge import Judge, held, shown

#: Of the host that is used here: how many vCPUs it may promise.
CPUS, RATIO = 4, 16
CONFIG = {
    "DEFAULT": {"cpu_allocation_ratio": RATIO, "disk_allocation_ratio": RATIO},
    "claims": {"claim_expiry_time": 3600},  # no lease shall lapse meanwhile
}
RESERVED_MB = 512
#: Answers between two crashes, and seconds for which a caller repeats itself: a boot takes long.
ANSWERS, PATIENCE = 30, 900.0

_COPY = """
import sqlite3
copy = sqlite3.connect("/tmp/copy.sqlite")
sqlite3.connect("/var/lib/rtagent/rtagent.sqlite").backup(copy)
"""
_WRITER = """
import sqlite3
database = sqlite3.connect("/var/lib/rtagent/rtagent.sqlite")
print(*database.execute("SELECT epoch, writer_boot_id FROM compute_nodes").fetchone())
"""


class Agent:
    """What the stream's callers call."""

    def __init__(self, host: Served) -> None:
        self._api = host.api

    def invoke(self, method: str, **document: Any) -> Any:
        return getattr(self._api, method)(CONTEXT, timeout=10.0, **document)


def runs(host: Served, stream: Stream) -> str:
    """A guest that is claimed like the stream's and whose domain is there; its claim."""
    agent, writer = Agent(host), Writer(random.Random("guest"))
    claim = writer.claim(vcpus=FLAVOR["vcpus"], memory_mb=FLAVOR["memory_mb"])
    for deed in (claim, writer.step("activate_claim", claim.claim_uuid)):
        stream.ledger.begin(deed)
        answer = attempt(agent, deed)
        stream.ledger.done(deed)
    create(host, answer)
    host.audit()
    assert not suspect(host, claim.claim_uuid)
    return claim.claim_uuid


def suspect(host: Served, claim: str) -> bool:
    return host.api.get_claim(CONTEXT, claim)["claim"]["suspect"] is not None


def restart(host: Served) -> None:
    """The agent alone goes down, and is up again."""
    host.tell("systemctl", "restart", "rtagent", timeout=PATIENCE)


def judge(host: Served, stream: Stream, directory: Path) -> None:
    """The database of the host says what the callers were told; so does the agent."""
    host.tell("python3", "-c", _COPY)
    copy = directory / "copy.sqlite"
    copy.write_bytes(base64.b64decode(host.tell("base64", "/tmp/copy.sqlite")))
    judge = Judge(f"sqlite:///{copy}", vcpus=CPUS * RATIO)
    judge.judge(stream.ledger)
    judge.close()
    assert shown(host.claims()) == held(stream.ledger)


def writer(host: Served) -> tuple[int, str]:
    """Who has written for the node, by its record: how many were before, and since which boot."""
    epoch, boot = host.tell("python3", "-c", _WRITER).split()
    return int(epoch), boot


def test_every_claim_that_was_answered_outlives_the_host(rack: Rack, tmp_path: Path):
    host = rack.fresh("no-sriov", CONFIG)
    stream = Stream(Agent(host), "lab", callers=4, patience=PATIENCE)
    stream.ledger.book.reserved_memory_mb = RESERVED_MB
    guest = runs(host, stream)
    boots, writers = [host.boot_id()], [writer(host)]
    with stream:
        for goes_down in (restart, Served.reset, Served.kill):
            stream.wait_answers(ANSWERS)
            goes_down(host)
            host.start().wait_served()
            boots.append(host.boot_id())
            writers.append(writer(host))
            assert suspect(host, guest) == (boots[-1] != boots[0])
        stream.wait_answers(ANSWERS)

    assert stream.setbacks > 0
    # A host that was booted is told from an agent that was started again.
    assert [boot for _, boot in writers] == boots
    assert boots[0] == boots[1] and len(set(boots)) == 3
    assert len({epoch for epoch, _ in writers}) == 4
    # What is suspect is in use: the judge adds up every claim that lives.
    judge(host, stream, tmp_path)
    host.audit()
    assert suspect(host, guest)
    assert shown(host.claims()) == held(stream.ledger)
