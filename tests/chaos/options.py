"""Options: the command line of a run, and what its values may be."""

import argparse
import math
import random
from collections.abc import Collection
from pathlib import Path

from tests.chaos.nemesis import FAULTS
from tests.chaos.run import Plan
from tests.chaos.world.world import DATABASES


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line of a run."""
    made = argparse.ArgumentParser(
        prog="tools/chaos",
        description="Random callers on real parts while faults are injected, then a checker.",
    )
    add = made.add_argument
    add("--minutes", type=minutes, default=10.0, help="of calls and faults (10)")
    add("--seed", type=int, help="of everything that is drawn; default: random")
    add("--keep", type=new_directory, help="keep history, logs and state in this directory")
    add("--callers", type=count, help="how many (8; with --lab: 4)")
    add("--conductors", type=count, help="that move servers, in place of the callers")
    add("--hosts", type=count, help="how many (3; with --lab: 1)")
    add("--faults", type=fault_names, help="names joined by commas, or none; default: all")
    world = made.add_mutually_exclusive_group()
    world.add_argument("--database", choices=DATABASES, help="default: drawn from the seed")
    world.add_argument("--lab", action="store_true", help="on lab hosts instead of simulated ones")
    return made


def plan(options: argparse.Namespace) -> Plan:
    """Return what a run with these options does."""
    callers, hosts = (4, 1) if options.lab else (8, 3)
    return Plan(
        seed=random.randrange(10**6) if options.seed is None else options.seed,
        seconds=options.minutes * 60,
        callers=options.callers or callers,
        hosts=options.hosts or hosts,
        faults=options.faults,
        database=options.database,
        lab=options.lab,
        conductors=options.conductors or 0,
    )


def minutes(text: str) -> float:
    """Return a positive number of minutes."""
    number = float(text)
    if not (math.isfinite(number) and number > 0):
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return number


def count(text: str) -> int:
    """Return a positive number of parts."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is below 1")
    return number


def new_directory(text: str) -> Path:
    """Return a directory that is empty or does not exist: one history is of one run."""
    directory = Path(text)
    if directory.is_dir() and not any(directory.iterdir()):
        return directory
    if directory.exists():
        raise argparse.ArgumentTypeError(f"{text} exists; name an empty or a new directory")
    return directory


def fault_names(text: str) -> tuple[str, ...]:
    """Return names of faults; none for ``none``."""
    return () if text == "none" else names(text.split(","), FAULTS)


def names(chosen: Collection[str], known: Collection[str]) -> tuple[str, ...]:
    """Return names that are known. The error lists all that are."""
    if unknown := sorted(set(chosen) - set(known)):
        listed = ", ".join(sorted(known))
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; choose from {listed}")
    return tuple(chosen)
