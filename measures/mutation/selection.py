"""What is changed, and which tests may notice."""

from __future__ import annotations

import ast
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from configparser import ConfigParser
from pathlib import Path

PACKAGE = "rtagent"
#: Tests that need no server.
LAYERS = ("tests/unit", "tests/property", "tests/regressions")
#: Modules of the pure core without decisions of their own.
NO_DECISIONS = frozenset({"rtagent.errors", "rtagent.ports"})


def core(root: Path) -> list[str]:
    """Modules and packages of the pure core, as the import contract "pure" names them."""
    contracts = ConfigParser()
    contracts.read(root / ".importlinter")
    named = contracts["importlinter:contract:pure"]["source_modules"].split()
    return sorted(set(named) - NO_DECISIONS)


def source_patterns(root: Path, modules: Iterable[str]) -> list[str]:
    """Shell patterns of the files of these modules and packages."""
    paths = [module.replace(".", "/") for module in modules]
    return [f"{path}/*.py" if (root / path).is_dir() else f"{path}.py" for path in paths]


def test_files(root: Path, modules: Iterable[str]) -> list[str]:
    """Test files that import one of these modules, themselves or through another of the tests."""
    prefixes = tuple(modules)
    found = []
    for layer in LAYERS:
        for path in sorted((root / layer).rglob("test_*.py")):
            if any(_is_below(name, prefixes) for name in _reached(root, path)):
                found.append(str(path.relative_to(root)))
    return found


def sample(mutants: Iterable[str], size: int, seed: int) -> list[str]:
    """A part of the mutants, of each package in proportion; the same for the same seed."""
    by_package: dict[str, list[str]] = defaultdict(list)
    for mutant in sorted(mutants):
        by_package[package_of(mutant)].append(mutant)
    total = sum(map(len, by_package.values()))
    chosen: list[str] = []
    for package, names in sorted(by_package.items()):
        number = min(len(names), max(1, round(size * len(names) / total)))
        chosen += random.Random(f"{seed} {package}").sample(names, number)
    return chosen


def package_of(name: str) -> str:
    """The top-level module or package of a dotted name."""
    return ".".join(name.split(".")[:2])


def _reached(root: Path, path: Path) -> set[str]:
    found: set[str] = set()
    todo = [path]
    while todo:
        for name in set(_imported(todo.pop())) - found:
            found.add(name)
            helper = root / (name.replace(".", "/") + ".py")
            if name.startswith("tests.") and helper.is_file():
                todo.append(helper)
    return found


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _is_below(name: str, prefixes: Iterable[str]) -> bool:
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)
