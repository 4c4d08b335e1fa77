"""The registry of faults."""

from __future__ import annotations

from tests.chaos.nemesis import (
    broker,
    certificates,
    clock,
    database,
    duplicate,
    failover,
    hypervisor,
    keys,
    late_calls,
    network,
    placement,
    power,
    processes,
    restore,
)
from tests.chaos.nemesis.fault import Fault

_FAMILIES: list[list[type[Fault]]] = [
    processes.FAULTS,
    late_calls.FAULTS,
    broker.FAULTS,
    network.FAULTS,
    database.FAULTS,
    failover.FAULTS,
    restore.FAULTS,
    placement.FAULTS,
    hypervisor.FAULTS,
    clock.FAULTS,
    keys.FAULTS,
    certificates.FAULTS,
    duplicate.FAULTS,
    power.FAULTS,
]

#: Every fault, by name.
FAULTS: dict[str, type[Fault]] = {fault.name: fault for family in _FAMILIES for fault in family}
