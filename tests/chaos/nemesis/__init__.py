"""The nemesis: the faults of a run, drawn from its seed."""

from tests.chaos.nemesis import (  # noqa: F401  their faults are in `FAULTS` then
    agents,
    broker,
    database,
    hypervisor,
    late_calls,
    network,
    placement,
    power,
    processes,
    restore,
)
from tests.chaos.nemesis.fault import FAULTS

__all__ = ["FAULTS"]
