"""The traits and resource classes that are named exist in the oldest releases allowed, those of
the oldest Nova.
"""

import ast
import configparser
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
OLDEST_TRAITS, OLDEST_CLASSES = "3.4.0", "1.1.0"


def names_of(module: str) -> Iterator[str]:
    """Yield the attributes of a module that the package reads, or imports by their names."""
    for file in ROOT.glob("rtagent/**/*.py"):
        tree = ast.parse(file.read_text())
        nodes = [*ast.walk(tree)]
        aliases = {
            alias.asname or alias.name
            for node in nodes
            if isinstance(node, ast.Import)
            for alias in node.names
            if alias.name == module
        }
        for node in nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                if node.value.id in aliases and node.attr.isupper():
                    yield node.attr
            elif isinstance(node, ast.ImportFrom) and node.module == module:
                yield from (alias.name for alias in node.names)


def test_oldest_releases_are_those_of_the_oldest_nova_and_the_bounds():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    lines = setup["options"]["install_requires"].splitlines()
    bounds = {each.name: each.specifier for each in map(Requirement, filter(None, lines))}
    nova = (ROOT / "constraints-nova-31.txt").read_text().splitlines()
    for name, oldest in (("os-traits", OLDEST_TRAITS), ("os-resource-classes", OLDEST_CLASSES)):
        assert f"{name}=={oldest}" in nova
        assert str(bounds[name]) == f">={oldest.removesuffix('.0')}"


def test_traits_are_those_of_the_oldest_release():
    known = (ROOT / f"tests/data/os_traits_{OLDEST_TRAITS}.txt").read_text().split()
    used = set(names_of("os_traits"))
    assert len(used) > 30
    assert used.difference(known) == set(), "write a newer trait as a text"


def test_resource_classes_are_those_of_the_oldest_release():
    """The names of the installed release are read by all other tests."""
    assert "VCPU" in names_of("os_resource_classes")
    assert version("os-resource-classes") == OLDEST_CLASSES
