"""mutmut's part; to be imported in the directory that has its configuration."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

from mutmut.__main__ import cli
from mutmut.mutation.data import SourceFileMutationData
from mutmut.mutation.diff_apply import find_mutant, get_diff_for_mutant
from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.stats import status_by_exit_code
from mutmut.utils.file_utils import walk_mutatable_files
from mutmut.utils.format_utils import get_mutant_name, orig_function_and_class_names_from_key

from measures.mutation import operators

operators.install()


def names() -> list[str]:
    """Every mutant there is to be made."""
    return [
        get_mutant_name(path, name)
        for path in sorted(walk_mutatable_files())
        for name in mutate_file_contents(str(path), path.read_text()).mutant_names
    ]


def results(chosen: Sequence[str], jobs: int) -> dict[str, str]:
    """How each of these mutants ended."""
    cli.main(["run", "--max-children", str(jobs), *chosen], standalone_mode=False)
    ends: dict[str, str] = {}
    for path in walk_mutatable_files():
        data = SourceFileMutationData(path=path)
        data.load()
        ends |= {name: status_by_exit_code[code] for name, code in data.exit_code_by_key.items()}
    return {name: ends[name] for name in chosen}


def place(mutant: str) -> tuple[str, str]:
    """File and line of a mutant, and its lines before and after."""
    path = Path(find_mutant(mutant).path)
    diff = get_diff_for_mutant(mutant).splitlines()[2:]
    changed = [line for line in diff if line[:1] in "+-" and line[1:].strip()]
    old = next((line[1:].strip() for line in changed if line.startswith("-")), "")
    line = _line(path.read_text(), mutant, old)
    return f"{path}:{line}", "\n".join(f"  {each[0]} {each[1:].strip()}" for each in changed)


def _line(source: str, mutant: str, text: str) -> int:
    """Where a function has this text first."""
    name, owner = orig_function_and_class_names_from_key(mutant)
    tree: ast.Module | ast.ClassDef = ast.parse(source)
    if owner is not None:
        tree = next(
            node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == owner
        )
    function = next(
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name
    )
    lines = source.splitlines()
    return next(
        (
            number
            for number in range(function.lineno, (function.end_lineno or 0) + 1)
            if lines[number - 1].strip() == text
        ),
        function.lineno,
    )
