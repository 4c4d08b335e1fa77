"""Claims over RabbitMQ, from one client process to one rtagentd on SQLite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import uuid4

from benchmarks import agents, floors
from benchmarks.bench import CONTEXT, Bench, calls_per_second, instance, p50_ms
from benchmarks.figure import Figure

CALLERS = 16
#: Claims of one call.
CLAIMS = 32


def measure(bench: Bench) -> Iterator[Figure]:
    """claim_rpc_p50: one caller, against echo + one durable commit.
    claim_rpc_16: sixteen callers, against the echo's calls per second."""
    made = agents.daemon(bench, bench.directory()).start().wait_ready()
    api = agents.client(bench)
    echo = floors.echo(bench)

    def claim() -> None:
        api.instance_claim(CONTEXT, instance())

    for call in (claim, echo):
        calls_per_second(call, CALLERS, 5)
    yield _sequential(bench, claim, echo)
    yield _together(bench, claim, echo)
    made.terminate()


def pinned(bench: Bench) -> Iterator[Figure]:
    """claim_pinned_rpc_16: sixteen callers that claim a dedicated host CPU and release it, each
    call counted, against the echo's calls per second."""
    dedicated: dict[str, object] = {"cpu_shared_set": "0-1", "cpu_dedicated_set": "2-31"}
    made = agents.daemon(bench, bench.directory(), compute=dedicated).start().wait_ready()
    api = agents.client(bench)
    echo = floors.echo(bench)

    def claim_and_release() -> None:
        document = instance(memory_mb=64)
        document["flavor"]["extra_specs"] = {"hw:cpu_policy": "dedicated"}
        claim = api.instance_claim(CONTEXT, document)
        api.release_claim(CONTEXT, claim["uuid"])

    for call in (claim_and_release, echo):
        calls_per_second(call, CALLERS, 5)
    rounds = bench.rounds(100)
    ratios = []
    for _ in range(3):
        value = 2 * calls_per_second(claim_and_release, CALLERS, rounds // 2)
        floor = calls_per_second(echo, CALLERS, rounds)
        ratios.append((value / floor, value, floor))
    made.terminate()
    _, value, floor = sorted(ratios)[1]
    yield Figure(
        name="claim_pinned_rpc_16",
        value=value,
        unit="calls/s",
        floor=floor,
        target=0.75,
        at_least=True,
    )


def together(bench: Bench) -> Iterator[Figure]:
    """claims_32_rpc: claims per second of sixteen callers with 32 claims a call, against the echo's
    calls per second."""
    made = agents.daemon(bench, bench.directory()).start().wait_ready()
    api = agents.client(bench)
    echo = floors.echo(bench)

    def claim() -> None:
        builds = ({"operation_id": str(uuid4()), "instance": instance()} for _ in range(CLAIMS))
        answers = api.instance_claims(CONTEXT, list(builds))["answers"]
        if not all(answer["claim"] for answer in answers):
            raise RuntimeError(f"a claim was refused: {answers}")

    for call, rounds in ((claim, 1), (echo, 5)):
        calls_per_second(call, CALLERS, rounds)
    ratios = []
    for _ in range(3):
        value = CLAIMS * calls_per_second(claim, CALLERS, bench.rounds(8))
        floor = calls_per_second(echo, CALLERS, bench.rounds(100))
        ratios.append((value / floor, value, floor))
    made.terminate()
    _, value, floor = sorted(ratios)[1]
    yield Figure(
        name="claims_32_rpc",
        value=value,
        unit="claims/s",
        floor=floor,
        target=3,
        at_least=True,
    )


def _sequential(bench: Bench, claim: Callable[[], None], echo: Callable[[], None]) -> Figure:
    rounds = bench.rounds(1000)
    floor = p50_ms(echo, rounds) + floors.commit_ms(bench)
    value = p50_ms(claim, rounds)
    return Figure(name="claim_rpc_p50", value=value, unit="ms", floor=floor, target=1.3)


def _together(bench: Bench, claim: Callable[[], None], echo: Callable[[], None]) -> Figure:
    """Alternate both, so that they run under the same conditions; return the median turn."""
    turns = sorted(
        (
            calls_per_second(claim, CALLERS, bench.rounds(100)),
            calls_per_second(echo, CALLERS, bench.rounds(100)),
        )
        for _ in range(3)
    )
    ratios = sorted((value / floor, value, floor) for value, floor in turns)
    _, value, floor = ratios[1]
    return Figure(
        name="claim_rpc_16", value=value, unit="calls/s", floor=floor, target=0.8, at_least=True
    )
