"""Defect: replacements in the source of a copy of the tree."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class NotPlanted(Exception):
    """The source is not what the defect was written for."""


@dataclass(frozen=True)
class Replacement:
    """:ivar file: below the root. :ivar old: a text that it has exactly once."""

    file: str
    old: str
    new: str

    def apply(self, root: Path) -> None:
        """Replace the text in a copy of the tree.

        :raises NotPlanted: the file does not have the text exactly once.
        """
        path = root / self.file
        text = path.read_text() if path.is_file() else ""
        if (number := text.count(self.old)) != 1:
            raise NotPlanted(
                f"{self.file} has the text of the defect {number} times, not once:"
                f" adapt tests/chaos/planted/defects.py\n{self.old}"
            )
        path.write_text(text.replace(self.old, self.new))


@dataclass(frozen=True, kw_only=True)
class Defect:
    """:ivar name: as the command line has it. :ivar meaning: a sentence.
    :ivar promises: beginnings of the names of promises, of which at least one is violated.
    :ivar signed: only a world with keys, where callers sign and an adversary calls, shows it.
    :ivar options: of the runs. Most defects are there without faults.
    """

    name: str
    meaning: str
    replacements: tuple[Replacement, ...]
    promises: tuple[str, ...]
    signed: bool = False
    options: tuple[str, ...] = ("--faults", "none")
