"""The number of requests to Placement."""

from __future__ import annotations

import time
from collections.abc import Iterator

from requests import Response

from benchmarks import agents
from benchmarks.bench import CONTEXT, Bench, instance
from benchmarks.figure import Figure

#: The requests for a new provider: whether it exists, which of its traits exist, its creation, and
#: one PUT each for traits and inventories.
FIRST_PUSH = 5


def measure(bench: Bench) -> Iterator[Figure]:
    """placement_first_push: HTTP requests until a new host's provider is complete.
    placement_idle_requests: during twenty audits and claims after that."""
    options: dict[str, object] = {
        "auth_type": "admin_token",
        "endpoint": bench.placement.url,
        "token": bench.placement.token,
    }
    made = agents.daemon(bench, bench.directory(), placement=options).start().wait_ready()
    node = made.read("nodes")["nodes"][0]["uuid"]
    client = bench.placement.client()
    asked = 0
    while not _complete(client.get(f"/resource_providers/{node}/traits")):
        asked += 1
        time.sleep(0.05)
    time.sleep(2)
    first = len(bench.placement.requests()) - asked - 1
    yield Figure(name="placement_first_push", value=first, unit="requests", target=FIRST_PUSH)
    before = len(bench.placement.requests())
    api = agents.client(bench)
    for _ in range(20):
        api.instance_claim(CONTEXT, instance())
        api.update_available_resource(CONTEXT)
    time.sleep(2)
    idle = len(bench.placement.requests()) - before
    yield Figure(name="placement_idle_requests", value=idle, unit="requests", target=0)
    made.terminate()


def _complete(answer: Response) -> bool:
    return answer.ok and "COMPUTE_NODE" in answer.json()["traits"]
