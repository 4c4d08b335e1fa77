"""What signatures cost: claims that are signed and verified, against claims that are not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

from msgspec.structs import replace
from oslo_config import cfg

from benchmarks import agents
from benchmarks.bench import CONTEXT, Bench, calls_per_second, instance, seconds_each
from benchmarks.claims_rpc import CALLERS
from benchmarks.figure import Figure
from rtagent.rpc.client import AgentAPI
from rtagent.rpc.transport import get_transport
from rtagent.rpc.trust.credentials import PrivateKey
from rtagent.rpc.trust.keys import keys_text

#: How many turns the two daemons take.
TURNS = 6

Claim = Callable[[], None]


def measure(bench: Bench) -> Iterator[Figure]:
    """claim_signed_rpc_p50: one caller whose claims are signed, at an agent that requires that,
    against an agent and a caller without keys, in turns of one run.
    claim_signed_rpc_16: sixteen callers, likewise."""
    directory = bench.directory()
    keys, private = _keys(directory)
    required: dict[str, object] = {"keys_file": keys, "require_signature": True}
    claims = {
        "unsigned": _claim(bench, "unsigned", {}, {}),
        "signed": _claim(bench, "signed", required, {"signing_key": str(private)}),
    }
    for claim in claims.values():
        calls_per_second(claim, CALLERS, 5)
    taken: dict[str, list[float]] = {name: [] for name in claims}
    rates: dict[str, list[float]] = {name: [] for name in claims}
    for turn in range(TURNS):
        for name in claims if turn % 2 else reversed(claims):
            taken[name] += seconds_each(claims[name], bench.rounds(100))
            rates[name].append(calls_per_second(claims[name], CALLERS, bench.rounds(50)))
    value, floor = (median(taken[name]) * 1000 for name in ("signed", "unsigned"))
    yield Figure(name="claim_signed_rpc_p50", value=value, unit="ms", floor=floor, target=1.1)
    value, floor = (median(rates[name]) for name in ("signed", "unsigned"))
    yield Figure(
        name="claim_signed_rpc_16",
        value=value,
        unit="calls/s",
        floor=floor,
        target=0.9,
        at_least=True,
    )


def _claim(bench: Bench, name: str, options: dict[str, object], client: dict[str, object]) -> Claim:
    """Start an agent, and return what makes a claim there. :param options: of ``[rpc]``.
    :param client: those of the caller.
    """
    host = f"bench-{name}"
    agents.daemon(
        bench,
        bench.directory(),
        machine=replace(agents.MACHINE, hostname=host),
        DEFAULT={"host": host},
        rpc=options,
    ).start().wait_ready()
    conf = cfg.ConfigOpts()
    conf([], project="rtagent", default_config_files=[])
    transport = get_transport(conf, bench.rabbitmq.transport_url)
    bench.keep(ExitStack()).callback(transport.cleanup)
    for option, value in client.items():
        conf.set_override(option, value, group="rpc")
    api = AgentAPI(transport, host, timeout=60, attempts=1)
    return lambda: api.instance_claim(CONTEXT, instance())


def _keys(directory: Path) -> tuple[Path, Path]:
    """Write a keys file and a private key, and return their paths."""
    key, now = PrivateKey.generate("bench"), datetime.now(UTC)
    day = timedelta(days=1)
    entry = key.public(["conductor"], (now - day, now + day))
    keys, private = directory / "keys.json", directory / "bench.jwk"
    keys.write_text(keys_text([entry]))
    private.write_text(key.text())
    private.chmod(0o600)
    return keys, private
