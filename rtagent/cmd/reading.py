"""Reader: where reading commands get their documents."""

from __future__ import annotations

from typing import Any, Protocol


class Reader(Protocol):
    """The read API's documents; `rtagent.api.client.ReadClient` is one."""

    def get(self, *segments: str, **filters: str | None) -> dict[str, Any]:
        """The document at a path. :raises RtAgentError:"""
        ...
