"""The file behind ``test:///FILE``: a simulated host, whose file is its world.

libvirt's test driver reads the file once per connection and reports neither the CPUs of the host
that the file describes, nor its cells or name. Those are in a capabilities document beside it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from urllib.parse import quote, unquote, urlsplit

import libvirt
from lxml import etree

from rtagent.virt.libvirt.document import parse
from rtagent.virt.libvirt.events import silence

#: The processing instruction in the capabilities document that names the host.
HOST_INSTRUCTION = "rtagent-host"

#: Seconds between two looks at the file.
INTERVAL = 0.25

Signature = tuple[tuple[int, int, int], ...]


def capabilities_path(file: Path) -> Path:
    """Where the capabilities document of a host file is."""
    return file.with_name(f"{file.name}.capabilities.xml")


def host_uri(file: Path) -> str:
    """The URI of a simulated host."""
    return f"test://{quote(str(file.absolute()))}"


def host_file(uri: str) -> Path | None:
    """The file of a ``test:///FILE`` URI; None for any other, ``test:///default`` included."""
    parts = urlsplit(uri)
    if parts.scheme != "test" or parts.netloc or parts.path in ("", "/", "/default"):
        return None
    return Path(unquote(parts.path))


def signature(file: Path) -> Signature:
    """What changes when the file or its capabilities document does."""
    return tuple(_stamp(path) for path in (file, capabilities_path(file)))


def simulated_capabilities(file: Path) -> str | None:
    """The capabilities document beside the file, or None when there is none."""
    try:
        return capabilities_path(file).read_text()
    except FileNotFoundError:
        return None


def simulated_hostname(capabilities: str) -> str | None:
    """The name that the document gives the simulated host, if it does."""
    beside = parse(capabilities).itersiblings(preceding=True)
    instructions = (each for each in beside if isinstance(each, etree._ProcessingInstruction))
    return next((i.get("name") for i in instructions if i.target == HOST_INSTRUCTION), None)


def complaint(file: Path) -> str:
    """What libvirt says against a host file, or "" when it accepts it."""
    silence()
    try:
        libvirt.open(host_uri(file)).close()
    except libvirt.libvirtError as error:
        return str(error)
    return ""


class FileWatch:
    """Looks at the file every `INTERVAL` seconds until `stop`.

    :param look: compares the file's signature with that of the world in use, and acts.
    """

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="host-file", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Also where nothing was started."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(INTERVAL):
            self._look()


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        status = os.stat(path)
    except OSError:  # whoever opens it is told why
        return (0, 0, 0)
    return (status.st_ino, status.st_mtime_ns, status.st_size)
