"""Units are kept apart by every database itself."""

from tests.unit.db.unit_cases import UnitRowCases


class TestUnitRows(UnitRowCases):
    """On each."""
