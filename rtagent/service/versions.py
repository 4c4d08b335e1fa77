"""The versions of what a program of this installation runs on. No server is contacted."""

import platform
import re
import sqlite3
import ssl
from collections.abc import Iterator
from importlib import metadata

from rtagent import __version__

#: The name at the beginning of a requirement, and the mark of one that is optional.
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_OPTIONAL = re.compile(r"\bextra\s*==")


def versions() -> Iterator[str]:
    """Yield a line for each part: its name and its version."""
    yield f"rtagent {__version__}"
    yield f"Python {platform.python_version()}"
    yield f"{platform.system()} {platform.release()} {platform.machine()}"
    yield f"libvirt {_libvirt()}"
    yield ssl.OPENSSL_VERSION
    yield f"SQLite {sqlite3.sqlite_version}"
    for name in _libraries():
        yield f"{name} {_installed(name)}"


def _libvirt() -> str:
    try:
        from rtagent.virt.libvirt.connection import library_version
    except ImportError as error:  # a scheduler's machine may lack the library
        return f"cannot be loaded: {error}"
    return library_version()


def _libraries() -> list[str]:
    """Return the libraries that the installed package requires, by name."""
    required = metadata.requires("rtagent") or ()
    found = (_NAME.match(each) for each in required if not _OPTIONAL.search(each))
    return sorted({match[0] for match in found if match}, key=str.lower)


def _installed(library: str) -> str:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return "is not installed"
