"""Digest of all inputs of a build, which shows whether it must be repeated."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from lab.places import ROOT


def digest(names: Iterable[str], *more: str) -> str:
    """Return the digest of these files and directories of the checkout, and of more text."""
    made = hashlib.sha256("\0".join(more).encode())
    for path in sorted(_files(names)):
        made.update(f"\0{path.relative_to(ROOT)}\0{path.stat().st_mode}\0".encode())
        made.update(path.read_bytes())
    return made.hexdigest()[:16]


def _files(names: Iterable[str]) -> Iterator[Path]:
    for name in names:
        path = ROOT / name
        if path.is_dir():
            yield from (f for f in path.rglob("*") if f.is_file() and "__pycache__" not in f.parts)
        else:
            yield path
