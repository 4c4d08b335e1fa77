"""What is said of a device, as Nova's pools say it."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from rtagent.model.device import Tags


def said(tags: Tags) -> dict[str, Any]:
    """What is other than usual, by the keys of ``[pci] device_spec``: JSON primitives. A physical
    network that is None is said."""
    words = {
        "trusted": "yes" if tags.trusted else None,
        "remote_managed": "true" if tags.remote_managed else None,
        "managed": None if tags.managed else "no",
        "live_migratable": "yes" if tags.live_migratable else None,
        "one_time_use": "yes" if tags.one_time_use else None,
        "resource_class": tags.resource_class,
        "traits": ",".join(sorted(tags.traits)) or None,
    }
    told: dict[str, Any] = {key: word for key, word in words.items() if word is not None}
    if tags.physical_network is not UNSET:
        told["physical_network"] = tags.physical_network
    return told
