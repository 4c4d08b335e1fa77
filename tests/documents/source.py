"""The documents: libvirt's test suite, which ``tools/test`` fetches."""

from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

SOURCE = Path(__file__).parents[2] / ".documents" / "libvirt"
#: Tags of files that have a document inside: libvirt's own record of a running domain.
_INSIDE: Mapping[str, str] = {"domstatus": "domain"}


def folders(*tags: str) -> dict[str, dict[str, Element]]:
    """Return the documents of the files with such a root, by folder and by file. A link to another
    file is no document of its own.

    :raises FileNotFoundError: they were not fetched.
    """
    if not SOURCE.is_dir():
        raise FileNotFoundError(f"{SOURCE} is missing: tools/test --install-only fetches it")
    found: dict[str, dict[str, Element]] = {}
    for path in sorted(SOURCE.glob("*/*.xml")):
        root = None if path.is_symlink() else _root(path)
        if root is not None and root.tag in tags:
            document = root if root.tag not in _INSIDE else root.find(_INSIDE[root.tag])
            assert document is not None
            found.setdefault(path.parent.name, {})[path.name] = document
    return found


def _root(path: Path) -> Element | None:
    try:
        return ElementTree.parse(path).getroot()
    except ElementTree.ParseError:  # the output of a command, or broken on purpose
        return None


def require_equal(folder: str, differing: Mapping[str, str], named: Mapping[str, str]) -> None:
    """Fail for the files of a folder that differ and are not named, and for those that are named
    and do not differ.

    :param differing: what differs, by file; "": nothing. :param named: reasons, by ``folder/file``.
    """
    found = {f"{folder}/{file}": text for file, text in differing.items() if text}
    texts = [f"{path}: {text}" for path, text in found.items() if path not in named]
    texts += [
        f"{path} does not differ: remove it from tests/documents/differences.py"
        for path in named
        if path.startswith(f"{folder}/") and path not in found
    ]
    if texts:
        pytest.fail("\n".join(texts), pytrace=False)
