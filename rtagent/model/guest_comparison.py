"""The guest that a claim determines, compared with the domain that was read."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from rtagent.model.base import Value


class Mark(StrEnum):
    """How a line of the claim's guest and a line of the domain relate."""

    SAME = "same"
    DIFFERENT = "different"
    ONLY_CLAIM = "only-claim"
    ONLY_DOMAIN = "only-domain"


class ComparedLine(Value, frozen=True, kw_only=True):
    """:ivar claim: the line of the claim's guest, or "". :ivar domain: of the domain, or ""."""

    mark: Mark
    claim: str = ""
    domain: str = ""


class DomainDocument(Value, frozen=True, kw_only=True):
    """The document of a domain. :ivar at: when it was read."""

    xml: str
    at: datetime


class GuestComparison(Value, frozen=True, kw_only=True):
    """The XML of a claim's guest, and that of its domain.

    :ivar lines: the parts that a claim determines. Without a domain, those of the claim alone.
    :ivar domain: the domain as it was last read; None: it was not read, or its document is not
        kept.
    :ivar problem: why the two cannot be compared, or "".
    """

    lines: tuple[ComparedLine, ...]
    domain: DomainDocument | None = None
    problem: str = ""

    @property
    def differences(self) -> int:
        """The number of lines that are not the same."""
        return sum(each.mark != Mark.SAME for each in self.lines) if self.domain else 0
