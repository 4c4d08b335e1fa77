"""Claims of devices over RabbitMQ, from one client process to one rtagentd on SQLite."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

from benchmarks import agents
from benchmarks.bench import CONTEXT, Bench, instance
from benchmarks.figure import Figure
from rtagent.rpc.client import AgentAPI
from rtagent.virt.simulate import Machine

#: Two GPUs, and a network card with all its virtual functions.
MACHINE = Machine(hostname="bench", gpus=2, nics=1, vfs=256)
#: The number of virtual functions that are allocated already.
HELD = 64
SPECS = [
    {"vendor_id": "10de", "product_id": "13f1"},
    {"vendor_id": "8086", "physical_network": "physnet1"},
]
ALIAS = {"name": "vf", "vendor_id": "8086", "product_id": "154c", "device_type": "type-VF"}
PLAIN: dict[str, str] = {}
WITH_DEVICE = {"pci_passthrough:alias": "vf:1"}


def measure(bench: Bench) -> Iterator[Figure]:
    """claim_pci_p50: one caller that claims a virtual function, against the same claim without one
    on the same host. Both alternate, so that they run under the same conditions."""
    pci: dict[str, object] = {"device_spec": json.dumps(SPECS), "alias": json.dumps(ALIAS)}
    made = agents.daemon(bench, bench.directory(), machine=MACHINE, pci=pci).start().wait_ready()
    api = agents.client(bench)
    for _ in range(HELD):
        api.instance_claim(CONTEXT, _document(WITH_DEVICE))
    turns = [(_taken(api, WITH_DEVICE), _taken(api, PLAIN)) for _ in range(bench.rounds(400))]
    made.terminate()
    value, floor = (median(each) * 1000 for each in zip(*turns, strict=True))
    yield Figure(name="claim_pci_p50", value=value, unit="ms", floor=floor, target=1.3)


def _taken(api: AgentAPI, extra_specs: dict[str, str]) -> float:
    """Return the seconds of a claim. Its release is not measured."""
    document = _document(extra_specs)
    began = time.perf_counter()
    claim = api.instance_claim(CONTEXT, document)
    taken = time.perf_counter() - began
    assert len(claim["pci"]) == len(extra_specs), claim
    api.abort_instance_claim(CONTEXT, claim["uuid"])
    return taken


def _document(extra_specs: dict[str, str]) -> dict[str, Any]:
    document = instance()
    document["flavor"]["extra_specs"] = extra_specs
    return document
