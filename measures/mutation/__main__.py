"""python -m measures.mutation [--sample N] [--seed N] [--tree DIR] [--json FILE]

mutmut does the work: it makes every mutant, notes which tests run which function, and runs those
tests for one mutant after the other. It works on a copy, so the tree stays as it is. Functions with
decorators, properties among them, are not changed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from measures.mutation import selection

#: A mutant may take this many times as long as its tests do, and these seconds more.
TIMEOUT_FACTOR, TIMEOUT_SECONDS = 4.0, 10.0
#: How a mutant ends that a test noticed.
NOTICED = frozenset({"killed", "timeout", "segfault"})


def main() -> int:
    arguments = _parser().parse_args()
    root = Path(arguments.tree).resolve()
    report = Path(arguments.json).resolve() if arguments.json else None
    console = Console(width=None if sys.stdout.isatty() else 110, highlight=False)
    with tempfile.TemporaryDirectory(prefix="mutation-") as directory:
        _copy(root, Path(directory))
        _configure(Path(directory))
        os.chdir(directory)
        from measures.mutation import run  # needs the configuration, in the directory where it is

        everything = run.names()
        chosen = selection.sample(everything, arguments.sample, arguments.seed)
        console.print(
            f"{len(chosen)} of {len(everything)} mutants, seed {arguments.seed}", style="italic"
        )
        results = run.results(chosen, arguments.jobs)
        survivors = {name: run.place(name) for name, end in results.items() if end not in NOTICED}
    console.print(_table(results))
    for name, (place, lines) in sorted(survivors.items(), key=lambda item: item[1]):
        console.print(f"{place}  ({results[name]})\n{lines}\n", markup=False, soft_wrap=True)
    if report is not None:
        report.write_text(json.dumps(results, indent=2) + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tools/mutation", description="How many changes of the pure core the tests notice."
    )
    parser.add_argument("--sample", type=int, default=300, metavar="N", help="try N mutants")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="which ones")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes at a time")
    parser.add_argument("--tree", metavar="DIR", default=".", help="of this source tree")
    parser.add_argument("--json", metavar="FILE", help="write how each mutant ended")
    return parser


def _copy(root: Path, directory: Path) -> None:
    """The files of the tree that git knows."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True, text=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        target = directory / name
        if (root / name).is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target)


def _configure(directory: Path) -> None:
    core = selection.core(directory)
    options = {
        "source_paths": [selection.PACKAGE],
        "only_mutate": selection.source_patterns(directory, core),
        "also_copy": sorted(path.name for path in directory.iterdir()),
        "pytest_add_cli_args": ["-p", "no:cacheprovider", "-p", "measures.mutation.few_examples"],
        "pytest_add_cli_args_test_selection": selection.test_files(directory, core),
        "timeout_multiplier": TIMEOUT_FACTOR,
        "timeout_constant": TIMEOUT_SECONDS,
        "use_git_change_detection": False,
        "track_dependencies": False,
    }
    lines = (f"{name} = {json.dumps(value)}\n" for name, value in options.items())
    with (directory / "pyproject.toml").open("a") as file:
        file.write("\n[tool.mutmut]\n" + "".join(lines))


def _table(results: dict[str, str]) -> Table:
    table = Table()
    for column in ("package", "mutants", "killed", "timed out", "survived", "score"):
        table.add_column(column, justify="left" if column == "package" else "right")
    packages = sorted(set(map(selection.package_of, results)))
    for package in packages:
        table.add_row(package, *_row(results, [package]), end_section=package == packages[-1])
    table.add_row("all", *_row(results, packages))
    return table


def _row(results: dict[str, str], packages: Sequence[str]) -> Iterable[str]:
    ends = [end for name, end in results.items() if selection.package_of(name) in packages]
    noticed = sum(end in NOTICED for end in ends)
    late = ends.count("timeout")
    numbers = len(ends), noticed - late, late, len(ends) - noticed
    return *map(str, numbers), f"{100 * noticed / len(ends):.1f} %"


if __name__ == "__main__":
    raise SystemExit(main())
