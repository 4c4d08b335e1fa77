"""The log of claims: each step of a claim's life; the steps of one commit share a line."""

from msgspec.structs import replace

from rtagent import claims
from rtagent.telemetry.claim_log import ClaimLog
from rtagent.telemetry.log_line import MAX_MESSAGE
from tests.support.hosts import NOON, call, host, request, uid
from tests.support.trackers import Reports


def test_creation_and_release_of_a_claim_are_logged():
    log, state = Reports(), host()
    asked = replace(call(operation_id=uid(2)), actor="user-1", request_id="req-1")
    build = claims.instance_claim(state, asked, NOON, request(2, 1024, 3, owner=uid(1)))
    state = state.fold(build.change)
    end = claims.release_claim(state, call("release_claim"), NOON, uid(2))

    claim_log = ClaimLog(log)
    added = [claim_log.add((build.change,)), claim_log.add((end.change,))]
    assert (log.logged, added) == ([], [True, False]), "no caller waits for the log"
    claim_log.write()

    quantities = "2 vCPUs, 1024 MB, 3072 MB of disk"
    assert log.logged == [
        (
            "info",
            f"create claim {uid(2)} of instance {uid(1)}: building, {quantities}"
            " (instance_claim by user-1 req-1); "
            f"release claim {uid(2)} of instance {uid(1)}: released, {quantities} (release_claim)",
        ),
    ]


def test_change_without_a_claim_is_not_logged():
    log = Reports()
    counted = claims.build_failed(host(), call("build_failed"), NOON)

    claim_log = ClaimLog(log)
    assert not claim_log.add((counted.change,))
    claim_log.write()

    assert log.logged == []


def test_texts_of_callers_are_escaped_and_neither_they_nor_lines_grow_without_bound():
    log, state = Reports(), host(cpu_allocation_ratio=100)
    asked = replace(call(), actor="a\n" * 10_000, request_id="r" * 10_000)
    claim_log = ClaimLog(log)
    for _ in range(40):
        claim_log.add((claims.instance_claim(state, asked, NOON, request(1, 1)).change,))
    claim_log.write()
    assert sum(line.count("create claim") for _, line in log.logged) == 40
    assert all(line.isprintable() and len(line) < MAX_MESSAGE for _, line in log.logged)
