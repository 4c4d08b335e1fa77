"""Sizes of files and functions, the number of rooms, and circles of imports."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from statistics import median

import grimp

from measures.measure import Measure

PACKAGE = "rtagent"
#: Revisions of the schema: each is a script of its own.
SCRIPTS = "migrations"
SMALL_FILE = 60
LONG_FUNCTION = 40


def measures(root: Path) -> Iterator[Measure]:
    """What there is to count in a tree."""
    yield Measure("rooms", len(rooms(root)), 30)
    imports = import_graph(root)
    yield Measure("import circles", len(circles(imports)), 0)
    yield Measure("import circles between rooms", len(circles(between_rooms(imports))), 0)
    sizes = [len(path.read_text().splitlines()) for path in files(root)]
    yield Measure("files", len(sizes))
    yield Measure("lines of a file, median", median(sizes), 130, least=100)
    yield Measure("lines of a file, most", max(sizes), 400)
    yield Measure(f"files under {SMALL_FILE} lines", sum(size < SMALL_FILE for size in sizes))
    long = [name for path in files(root) for name in long_functions(path.read_text())]
    yield Measure(f"functions over {LONG_FUNCTION} lines", len(long), 0)


def files(root: Path) -> list[Path]:
    """Modules of the package, without those that only make a directory a package."""
    return [
        path
        for path in sorted((root / PACKAGE).rglob("*.py"))
        if SCRIPTS not in path.parts and (path.name != "__init__.py" or _has_code(path))
    ]


def rooms(root: Path) -> list[str]:
    """Top-level modules and packages of the package, and the other top-level packages,
    without the tests."""
    inside = [
        path.stem
        for path in sorted((root / PACKAGE).iterdir())
        if (path.suffix == ".py" and path.stem != "__init__") or _is_package(path)
    ]
    others = [path.name for path in sorted(root.iterdir()) if _is_package(path)]
    return inside + [name for name in others if name not in (PACKAGE, "tests")]


def long_functions(source: str) -> list[str]:
    """Names of functions of more than `LONG_FUNCTION` lines, docstrings counted."""
    return [
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > LONG_FUNCTION
    ]


def import_graph(root: Path) -> Mapping[str, Set[str]]:
    """What each module of the package imports of it, for type checking included."""
    sys.path.insert(0, str(root))
    try:
        graph = grimp.build_graph(PACKAGE, cache_dir=None)
    finally:
        sys.path.remove(str(root))
    return {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}


def between_rooms(imports: Mapping[str, Set[str]]) -> dict[str, set[str]]:
    """The same, of top-level modules and packages."""
    found: dict[str, set[str]] = {}
    for name, imported in imports.items():
        room = _room(name)
        found.setdefault(room, set()).update({_room(each) for each in imported} - {room})
    return found


def circles(imports: Mapping[str, Set[str]]) -> list[set[str]]:
    """Largest sets of modules that all import each other, directly or through others."""
    reach = {name: _reached(imports, name) for name in imports}
    found: list[set[str]] = []
    for name in sorted(imports):
        if name in reach[name] and not any(name in circle for circle in found):
            found.append({each for each in reach[name] if name in reach[each]})
    return found


def _reached(imports: Mapping[str, Set[str]], name: str) -> set[str]:
    found: set[str] = set()
    todo = [name]
    while todo:
        new = set(imports.get(todo.pop(), ())) - found
        found |= new
        todo += new
    return found


def _room(module: str) -> str:
    return ".".join(module.split(".")[:2])


def _is_package(path: Path) -> bool:
    """Whether it has modules. ``rtagent/migrations`` is a link to ``migrations``, counted once."""
    if path.is_symlink():
        return False
    return path.is_dir() and path.name.isidentifier() and any(path.glob("*.py"))


def _has_code(path: Path) -> bool:
    body = ast.parse(path.read_text()).body
    return any(
        isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign)
        for node in body
    )
