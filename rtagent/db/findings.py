"""Findings: the damage that a read of a node's rows has found."""

from __future__ import annotations

from collections.abc import Sequence


class Findings:
    """Collects the damaged rows of one read.

    :ivar damage: a sentence for each damaged row: table, key and columns.
    :ivar unknown: reasons why it is not known what is held. Nothing must be granted.
    """

    def __init__(self) -> None:
        self.damage: list[str] = []
        self.unknown: list[str] = []

    def add(self, table: str, key: object, faults: Sequence[str], effect: str) -> None:
        """Add a damaged row.

        :param faults: its columns, or the digest that it does not have.
        :param effect: what is done about it.
        """
        self.damage.append(f"{table} {key}: damaged ({', '.join(faults)}): {effect}")

    def add_unknown(self, reason: str) -> None:
        """Add a reason why nothing must be granted."""
        self.unknown.append(reason)
