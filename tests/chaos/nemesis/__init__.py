"""The nemesis: the faults of a run, drawn from its seed."""

from tests.chaos.nemesis.nemesis import Nemesis
from tests.chaos.nemesis.registry import FAULTS

__all__ = ["FAULTS", "Nemesis"]
