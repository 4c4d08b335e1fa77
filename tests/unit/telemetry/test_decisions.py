"""Each step of a claim's life is in the log; those of one commit share a line."""

from msgspec.structs import replace

from rtagent import claims
from rtagent.ports import Silence
from rtagent.telemetry.decisions import Decisions
from tests.builders import NOON, call, host, request, uid


class Log(Silence):
    def __init__(self):
        self.lines = []

    def said(self, level, sentence):
        self.lines.append((level, sentence))


def test_a_claim_and_its_end_are_told():
    log, state = Log(), host()
    asked = replace(call(), actor="user-1", request_id="req-1")
    build = claims.build(state, request(2, 1024, 3, owner=uid(1), claim=uid(2)), asked, NOON)
    state = state.fold(build.change)
    end = claims.end(state, uid(2), "release", call("release_claim"), NOON)

    woken = []
    decisions = Decisions(log, lambda: woken.append(True))
    decisions.listener(state, (build.change,))
    decisions.listener(state, (end.change,))
    assert (log.lines, woken) == ([], [True]), "no caller waits for the log"
    decisions.tell()

    amounts = "2 vCPUs, 1024 MB, 3072 MB of disk"
    assert log.lines == [
        (
            "info",
            f"create claim {uid(2)} of instance {uid(1)}: building, {amounts}"
            " (instance_claim by user-1 req-1); "
            f"release claim {uid(2)} of instance {uid(1)}: released, {amounts} (release_claim)",
        ),
    ]


def test_what_moves_no_claim_is_not_told():
    log = Log()
    counted = claims.count_build(host(), False, call("build_failed"), NOON)

    decisions = Decisions(log, lambda: log.lines.append("woken"))
    decisions.listener(host(), (counted.change,))
    decisions.tell()

    assert log.lines == []


def test_none_is_lost_however_many_there_are():
    log, state = Log(), host(cpu_allocation_ratio=100)
    decisions = Decisions(log, lambda: None)
    for _ in range(120):
        decision = claims.build(state, request(1, 1), call(), NOON)
        decisions.listener(state, (decision.change,))
    decisions.tell()
    assert sum(line.count("create claim") for _, line in log.lines) == 120
    assert len(log.lines) == 3
