"""Agreement: owners whose claims and domain needed no step at the last audit.

Most domains of a host stay as they are from one audit to the next. Whether their claims account for
them follows from the claims and the domain alone, so an owner is compared again only after one of
these has changed.
"""

from __future__ import annotations

from collections.abc import Collection

from rtagent.model.claim import Claim
from rtagent.model.observation import Domain


class Agreement:
    """For the audits of one host, one at a time."""

    def __init__(self) -> None:
        self._pairs: dict[str, tuple[tuple[Claim, ...], Domain]] = {}

    def has(self, owner: str, claims: tuple[Claim, ...], domain: Domain | None) -> bool:
        """Return whether exactly these claims and this domain agreed when they were compared."""
        # Nearly always the very same values, which Python compares by their identity first.
        return self._pairs.get(owner) == (claims, domain)

    def add(self, owner: str, claims: tuple[Claim, ...], domain: Domain) -> None:
        """Note that these agree."""
        self._pairs[owner] = claims, domain

    def retain(self, owners: Collection[str]) -> None:
        """Forget all owners but these."""
        if len(self._pairs) > len(owners):
            self._pairs = {o: pair for o, pair in self._pairs.items() if o in owners}
