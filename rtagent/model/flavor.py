"""Flavor and image, with Nova's field names."""

from __future__ import annotations

from collections.abc import Mapping

from rtagent.model.base import Count, Document, Name, Positive, Text


class Flavor(Document, frozen=True, kw_only=True):
    """The size and the extra specs of a guest.

    :ivar memory_mb: MB. :ivar root_gb: GB. :ivar ephemeral_gb: GB. :ivar swap: MB.
    """

    vcpus: Positive
    memory_mb: Positive
    root_gb: Count = 0
    ephemeral_gb: Count = 0
    swap: Count = 0
    flavorid: Name = ""
    name: Name = ""
    extra_specs: Mapping[Name, Text] = {}


class Image(Document, frozen=True, kw_only=True):
    """The image that a guest is built from.

    :ivar properties: image properties (``hw_cpu_policy`` and others), as strings.
    """

    properties: Mapping[Name, Text] = {}
