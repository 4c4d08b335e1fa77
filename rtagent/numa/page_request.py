"""What pages a guest asks for."""

from __future__ import annotations

from rtagent.model.pages import ANY, LARGE, BadPageSize, PageRequest, parse_request
from rtagent.numa.properties import Properties, Property, conflict, overriding


def page_request(properties: Properties) -> PageRequest | None:
    """``hw:mem_page_size``. The image may choose where the flavor says ``large`` or ``any``, and
    nowhere else.

    :raises InvalidFlavor:
    """
    flavor, image = properties.pair("hw:mem_page_size")
    if image and (flavor is None or _read(flavor) not in (LARGE, ANY)):
        raise overriding(
            "the image may set page sizes only where the flavor says large or any",
            flavor or Property("hw:mem_page_size", "unset"),
            image,
        )
    side = image or flavor
    return _read(side) if side else None


def locked_memory(properties: Properties) -> bool:
    """``hw:locked_memory``: the guest's memory is never swapped out. It takes explicit pages.

    :raises InvalidFlavor:
    """
    flavor, image = pair = properties.pair("hw:locked_memory")
    if flavor and image and flavor.boolean() != image.boolean():
        raise pair.conflict("the image may not differ from the flavor")
    side = flavor or image
    locked = bool(side and side.boolean())
    if locked and not any(properties.pair("hw:mem_page_size")):
        raise conflict("memory is locked only with hw:mem_page_size", side)
    return locked


def _read(side: Property) -> PageRequest:
    try:
        return parse_request(side.value)
    except BadPageSize as error:
        raise side.invalid(str(error)) from error
