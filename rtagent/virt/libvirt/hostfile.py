"""The file behind ``test:///FILE``: a simulated host.

libvirt's test driver reads the file once per connection. It does not report the CPUs, the cells and
the name of the described host. These are in a capabilities document next to the file.
"""

import os
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import libvirt
from lxml import etree

from rtagent.virt.libvirt.document import MAX_TEXT, BadDocument, E, integer, parse
from rtagent.virt.libvirt.events import silence

#: The processing instruction in the capabilities document that names the host.
HOST_INSTRUCTION = "rtagent-host"
#: The one that lists its persistent memory namespaces.
NAMESPACES_INSTRUCTION = "rtagent-namespaces"
#: The one that has the features of its guests: ``<features>`` of domain capabilities, with the
#: number of keys of Intel TDX, which a real kernel says.
FEATURES_INSTRUCTION = "rtagent-features"

#: The largest number of keys.
MAX_KEYS = 2**31 - 1
#: Seconds between two looks at the file.
INTERVAL = 0.25

Signature = tuple[tuple[int, int, int], ...]


def capabilities_path(file: Path) -> Path:
    """Return the path of a host file's capabilities document."""
    return file.with_name(f"{file.name}.capabilities.xml")


def host_uri(file: Path) -> str:
    """Return the URI of a simulated host."""
    return f"test://{quote(str(file.absolute()))}"


def host_file(uri: str) -> Path | None:
    """Return the file of a ``test:///FILE`` URI; None for any other and ``test:///default``."""
    try:
        parts = urlsplit(uri)
    except ValueError:  # opening the connection reports the error
        return None
    if parts.scheme != "test" or parts.netloc or parts.path in ("", "/", "/default"):
        return None
    return Path(unquote(parts.path))


def signature(file: Path) -> Signature:
    """Return a value that changes when the file or its capabilities document changes."""
    return tuple(_stamp(path) for path in (file, capabilities_path(file)))


def simulated_capabilities(file: Path) -> bytes | None:
    """Return the capabilities document of the file, or None without one.

    :raises BadDocument: it cannot be read.
    """
    path = capabilities_path(file)
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadDocument(f"{path} cannot be read: {error.strerror}") from error


def simulated_hostname(capabilities: str | bytes) -> str | None:
    """Return the host name in a simulated host's capabilities document, or None.

    :raises BadDocument: the name is longer than `MAX_TEXT`.
    """
    instruction = _instruction(capabilities, HOST_INSTRUCTION)
    name = None if instruction is None else instruction.get("name")
    if name is not None and len(name) > MAX_TEXT:
        raise BadDocument(f"the name of the host has more than {MAX_TEXT} characters")
    return name


def simulated_namespaces(file: Path) -> str:
    """Return the persistent memory namespaces in the capabilities document of a host file, as
    ``ndctl list -X`` prints them; "" without any.

    :raises BadDocument: the document is invalid.
    """
    capabilities = simulated_capabilities(file)
    if capabilities is None:
        return ""
    listed = _instruction(capabilities, NAMESPACES_INSTRUCTION)
    return "" if listed is None else listed.text or ""


def simulated_features(capabilities: str | bytes) -> etree._Element:
    """Return the features of guests in a simulated host's capabilities document, as domain
    capabilities have them.

    :raises BadDocument: the document is invalid.
    """
    features = _instruction(capabilities, FEATURES_INSTRUCTION)
    return E.features() if features is None else parse(features.text or "")


def simulated_tdx_keys(features: etree._Element) -> int | None:
    """Return the number of keys of Intel TDX in `simulated_features`; None without one.

    :raises BadDocument: it is no number.
    """
    tdx = features.find("tdx[@keys]")
    return None if tdx is None else integer(tdx.get("keys", ""), "keys of <tdx>", MAX_KEYS)


def _instruction(capabilities: str | bytes, target: str) -> etree._ProcessingInstruction | None:
    """Return the processing instruction before the root element, or None."""
    for sibling in parse(capabilities).itersiblings(preceding=True):
        if isinstance(sibling, etree._ProcessingInstruction) and sibling.target == target:
            return sibling
    return None


def rejection(file: Path) -> str:
    """Return libvirt's error for a host file, or "" when it accepts the file."""
    silence()
    try:
        libvirt.open(host_uri(file)).close()
    except Exception as error:  # the binding raises SystemError for text that is not in UTF-8
        return str(error)
    return ""


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        status = os.stat(path)
    except OSError:  # opening the file reports the error
        return (0, 0, 0)
    return (status.st_ino, status.st_mtime_ns, status.st_size)
