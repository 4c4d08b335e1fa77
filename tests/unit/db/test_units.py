from tests.unit.db.unit_cases import UnitRowCases


class TestUnitRows(UnitRowCases):
    """On SQLite."""
