"""Write the files of a simulated host: replaced atomically, by one writer at a time."""

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from lxml import etree

from rtagent.errors import HypervisorUnavailable
from rtagent.virt.libvirt.document import BadDocument, parse
from rtagent.virt.libvirt.hostfile import capabilities_path, rejection
from rtagent.virt.simulate.documents import capabilities_document, host_document
from rtagent.virt.simulate.machine import Machine
from rtagent.virt.simulate.world import SimulationError, World

#: Seconds that an edit waits for others to end, and between two looks.
LOCK_TIMEOUT, _PAUSE = 30.0, 0.01


def simulate(file: Path, machine: Machine, domains: Iterable[str] = ()) -> None:
    """Write the host file and its capabilities document, replacing existing ones.

    :param domains: domain documents.
    :raises SimulationError: a domain is invalid, or a file cannot be written.
    """
    node = host_document(machine)
    with _changing(file):
        _fill(World(node), domains)
        _replace(capabilities_path(file), capabilities_document(machine))
        _replace_world(file, node)


def read(file: Path) -> World:
    """Return the content of a host file.

    :raises SimulationError: the file is not a host file.
    """
    with _naming(file):
        return World(_read(file))


@contextlib.contextmanager
def edit(file: Path) -> Iterator[World]:
    """Yield the content of a host file; write it back when the block ends without an error.

    The file is left alone if nothing changed: agents read a host anew whenever its file changes.

    :raises SimulationError: the file is not a host file, or libvirt rejects the new content; the
        file is unchanged then.
    """
    with _changing(file):
        node = _read(file)
        before = etree.tostring(node)
        yield World(node)
        etree.indent(node)
        if etree.tostring(node) != before:
            _replace_world(file, node)


def _fill(world: World, domains: Iterable[str]) -> None:
    for domain in domains:
        world.add_domain(domain)


@contextlib.contextmanager
def _changing(file: Path) -> Iterator[None]:
    """Lock the file's directory, and name the file in every error.

    The file itself cannot be locked, because each edit replaces it.

    :raises HypervisorUnavailable: another process keeps the lock: it may be suspended.
    """
    with _naming(file):
        directory = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _lock(directory, file)
            yield
            os.fsync(directory)
        finally:
            os.close(directory)


def _lock(directory: int, file: Path) -> None:
    deadline = time.monotonic() + LOCK_TIMEOUT
    while True:
        try:
            return fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                why = f"{file}: another process has locked it for {LOCK_TIMEOUT:g} s"
                raise HypervisorUnavailable(why) from error
            time.sleep(_PAUSE)


@contextlib.contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Name the file in every error."""
    try:
        yield
    except (SimulationError, BadDocument, OSError) as error:
        raise SimulationError(f"{file}: {getattr(error, 'strerror', None) or error}") from error


def _read(file: Path) -> etree._Element:
    try:
        root = parse(file.read_bytes())
    except FileNotFoundError as error:
        raise SimulationError(
            "no such file: create the host with `rtagent host simulate`"
        ) from error
    if root.tag != "node":
        raise SimulationError(f"not a host file: the root element is <{root.tag}>, not <node>")
    return root


def _replace_world(file: Path, node: etree._Element) -> None:
    etree.indent(node)
    _replace(file, node.getroottree(), check=True)


def _replace(path: Path, document: etree._ElementTree, check: bool = False) -> None:
    """Write a temporary file, check it, sync it, and rename it over the path."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as written:
            written.write(etree.tostring(document, encoding="utf-8", pretty_print=True))
            written.flush()
            os.fchmod(descriptor, 0o644)
            os.fsync(descriptor)
        refused = rejection(Path(name)) if check else ""
        if refused:
            raise SimulationError(f"libvirt rejects it: {refused}")
        os.rename(name, path)
    except BaseException:
        os.unlink(name)
        raise
