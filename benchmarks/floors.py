"""Floors: the cost of indispensable parts, measured in the same run as the figure."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import oslo_messaging

from benchmarks.bench import CONTEXT, Bench, instance, p50_ms
from benchmarks.echo import TARGET, plain_transport

ROOT = Path(__file__).resolve().parents[1]


def echo(bench: Bench) -> Any:
    """Return a call that a server answers with the instance document that it was sent."""
    server = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.echo", bench.rabbitmq.transport_url],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    )
    bench.keep(server)
    bench.keep(_Ends(server))
    assert server.stdout is not None
    server.stdout.readline()
    transport = plain_transport(bench.rabbitmq.transport_url)
    bench.keep(_Cleaned(transport))
    client = oslo_messaging.get_rpc_client(transport, TARGET, timeout=60)
    context = CONTEXT.to_dict()
    return lambda: client.call(context, "echo", instance=instance())


class _Ends:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


class _Cleaned:
    def __init__(self, transport: oslo_messaging.RPCTransport) -> None:
        self._transport = transport

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._transport.cleanup()


def commit_ms(bench: Bench) -> float:
    """Return the median of durable commits of one row in ms: SQLite, WAL, synchronous=FULL."""
    connection = sqlite3.connect(bench.directory() / "floor.sqlite", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, document TEXT)")
    document = str(instance())
    return p50_ms(
        lambda: connection.execute("INSERT INTO t (document) VALUES (?)", (document,)),
        bench.rounds(1000),
    )
