"""What provider files add to the resource providers of a host, as the operator wrote it."""

from __future__ import annotations

from rtagent.model.base import Value
from rtagent.model.placement_policy import AdditionalInventory

#: In place of a uuid: the root provider of every node that the configuration is for.
COMPUTE_NODE = "$COMPUTE_NODE"


class ProviderEntry(Value, frozen=True, kw_only=True):
    """One item of the list ``providers`` of a provider file.

    :ivar file: the file. :ivar path: the item's place in it.
    :ivar uuid: of the provider, in lower case, or `COMPUTE_NODE`; None: it is named.
    :ivar name: of the provider; None: it has a uuid.
    :ivar inventories: to be added. The provider is not known yet, so their suffix is "".
    :ivar traits: to be added.
    """

    file: str
    path: str
    uuid: str | None = None
    name: str | None = None
    inventories: tuple[AdditionalInventory, ...] = ()
    traits: frozenset[str] = frozenset()

    @property
    def identification(self) -> str:
        """The uuid or the name."""
        return self.uuid or self.name or ""

    @property
    def origin(self) -> str:
        """The file and the place in it."""
        return f"{self.file}: {self.path}"


class ProviderFiles(Value, frozen=True, kw_only=True):
    """All provider files.

    :ivar entries: each provider is identified once in the same way. Entries that add nothing are
        left out.
    :ivar doubts: a sentence for each part that is valid and has no effect.
    """

    entries: tuple[ProviderEntry, ...] = ()
    doubts: tuple[str, ...] = ()
