"""Flavor and image, with Nova's field names."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rtagent.model.base import Count, Document, Entries, Name, Positive, Text

#: A resource class in the flavor, of the request itself or of a request group. Nova's grammar.
_GROUP = re.compile(r"resources(?P<suffix>[a-zA-Z0-9_-]{1,64})?:(?P<name>.*)")


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
    extra_specs: Entries[Name, Text] = {}

    @property
    def in_request_groups(self) -> Iterator[tuple[str, str, str, str]]:
        """Key, group, resource class and value of each ``resources:CLASS``, whose group is "", and
        ``resources<group>:CLASS`` that has a value.
        """
        for key, value in self.extra_specs.items():
            found = _GROUP.fullmatch(key)
            if value and found is not None:
                yield key, found["suffix"] or "", found["name"], value


class Image(Document, frozen=True, kw_only=True):
    """The image that a guest is built from.

    :ivar properties: image properties (``hw_cpu_policy`` and others), as strings.
    """

    properties: Entries[Name, Text] = {}
