"""Nova's claims: what the compute manager gets, and ends."""

from __future__ import annotations

from typing import Any

from nova.compute import claims


class Claim(claims.Claim):
    """A claim that rtagent has granted."""

    def _claim_test(self, compute_node: Any, limits: Any = None) -> None:
        """Do nothing: it is decided."""


class MoveClaim(claims.MoveClaim):
    """A claim for a move that rtagent has granted."""

    def _claim_test(self, compute_node: Any, limits: Any = None) -> None:
        """Do nothing: it is decided."""
