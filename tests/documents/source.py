"""The documents: libvirt's test suite, which ``tools/test`` fetches."""

import functools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

from tests.documents import differences

SOURCE = Path(__file__).parents[2] / ".documents" / "libvirt"
#: Tags of files with a document inside: libvirt's own record of a running domain.
_INSIDE: Mapping[str, str] = {"domstatus": "domain"}
#: The tags of files with a domain document.
DOMAINS = ("domain", *_INSIDE)


def folders(*tags: str) -> dict[str, list[Path]]:
    """Return the files whose root has such a tag, by folder.

    :raises FileNotFoundError: they were not fetched.
    """
    found: dict[str, list[Path]] = {}
    for path, tag in _tags().items():
        if tag in tags:
            found.setdefault(path.parent.name, []).append(path)
    return found


def document(path: Path) -> Element:
    """Return the root element of the document in a file."""
    root = ElementTree.parse(path).getroot()
    inside = root.find(_INSIDE.get(root.tag, "."))
    assert inside is not None, path
    return inside


@functools.cache
def _tags() -> dict[Path, str]:
    """Return the tag of each file's root. A link to another file is no document of its own."""
    if not SOURCE.is_dir():
        raise FileNotFoundError(f"{SOURCE} is missing: tools/test --install-only fetches it")
    files = (path for path in sorted(SOURCE.glob("*/*.xml")) if not path.is_symlink())
    tags = {path: _tag(path) for path in files}
    return {path: tag for path, tag in tags.items() if tag is not None}


def _tag(path: Path) -> str | None:
    try:
        return ElementTree.parse(path).getroot().tag
    except ElementTree.ParseError:  # the output of a command, or broken on purpose
        return None


def difference(ours: Any, right: Any) -> str:
    """Return what differs between two answers, by field if they have fields; "": nothing."""
    if not (isinstance(ours, dict) and isinstance(right, dict)):
        return "" if ours == right else f"{ours}, right is {right}"
    fields = {
        name: difference(ours.get(name, "missing"), right.get(name, "missing"))
        for name in ours.keys() | right
    }
    return "; ".join(f"{name}: {text}" for name, text in sorted(fields.items()) if text)


def require_equal(
    paths: Iterable[Path], judge: Callable[[Element], str], named: Mapping[str, str]
) -> None:
    """Fail for the files that differ and are not named, and for those that are named and do not
    differ.

    :param judge: returns what differs in a document; "": nothing. :param named: reasons, by
        ``folder/file``.
    """
    texts = []
    for path in paths:
        name, text = f"{path.parent.name}/{path.name}", judge(document(path))
        if text and name not in named:
            texts.append(f"{name}: {text}")
        if not text and name in named:
            texts.append(f"{name} does not differ: remove it from {differences.__file__}")
    if texts:
        pytest.fail("\n".join(texts), pytrace=False)
