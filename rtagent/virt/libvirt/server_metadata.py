"""Parse Nova's metadata in a domain document: the server, its flavor and its owner. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from lxml import etree

from rtagent.model.converter import Converter
from rtagent.model.guest import ServerMetadata
from rtagent.virt.libvirt.document import BadDocument, integer

#: The beginning of the namespace. Its last part is a version, which adds elements.
NAMESPACE = "http://openstack.org/xmlns/libvirt/nova/"
_MAX_INT = 2**31 - 1
_metadata = Converter(ServerMetadata)

#: Fields of a flavor, by the element that has them. Root disk and ephemeral disk are in GB.
_SIZES = {
    "vcpus": "vcpus",
    "memory": "memory_mb",
    "disk": "root_gb",
    "ephemeral": "ephemeral_gb",
    "swap": "swap",
}


def server_metadata(domain: etree._Element) -> ServerMetadata | None:
    """Return what the metadata says; None: the document has none of Nova.

    :raises BadDocument: a value is invalid.
    """
    instance = next(_children(domain.find("metadata"), "instance"), None)
    if instance is None:
        return None
    flavor, image = _child(instance, "flavor"), _child(instance, "image")
    owner, root = _child(instance, "owner"), _child(instance, "root")
    document = {
        "name": _text(_child(instance, "name")),
        "project_id": _uuid(owner, "project"),
        "user_id": _uuid(owner, "user"),
        "flavor": None if flavor is None else _flavor(flavor),
        "image": {"properties": _properties(image, "properties", "property")},
        # Nova names the root disk's image, and leaves the element out for a volume.
        "is_volume_backed": flavor is not None and root is None,
    }
    try:
        return _metadata.convert(document)
    except msgspec.ValidationError as error:
        raise BadDocument(f"Nova's <metadata>: {error}") from error


def _flavor(element: etree._Element) -> dict[str, Any]:
    sizes = {
        field: integer(_text(_child(element, tag)) or "0", f"<{tag}> of <nova:flavor>", _MAX_INT)
        for tag, field in _SIZES.items()
    }
    return {
        **sizes,
        "name": element.get("name", ""),
        "flavorid": element.get("id", ""),
        "extra_specs": _properties(element, "extraSpecs", "extraSpec"),
    }


def _properties(element: etree._Element | None, list_: str, item: str) -> dict[str, str]:
    """Return the names and the texts of the items of a list."""
    return {each.get("name", ""): _text(each) for each in _children(_child(element, list_), item)}


def _uuid(owner: etree._Element | None, tag: str) -> str | None:
    found = _child(owner, tag)
    return None if found is None else found.get("uuid")


def _text(element: etree._Element | None) -> str:
    return "" if element is None else (element.text or "").strip()


def _child(parent: etree._Element | None, name: str) -> etree._Element | None:
    return next(_children(parent, name), None)


def _children(parent: etree._Element | None, name: str) -> Iterator[etree._Element]:
    """Yield the children of that name in Nova's namespace, of any version."""
    for each in () if parent is None else parent:
        if isinstance(each.tag, str):
            tag = etree.QName(each)
            if tag.localname == name and (tag.namespace or "").startswith(NAMESPACE):
                yield each
