import pytest

from rtagent.db.memory import Disk, MemoryServiceRegistry, MemoryStore
from rtagent.ports import ServiceRegistry, Store
from tests.unit.db.cases import StoreCases
from tests.unit.db.move_cases import EvacuationCases, MoveCases


class MemoryDatabase:
    def __init__(self) -> None:
        self._disk = Disk()

    def store(self) -> Store:
        return MemoryStore(self._disk)

    def registry(self) -> ServiceRegistry:
        return MemoryServiceRegistry(self._disk)


class TestMemoryStore(StoreCases, MoveCases, EvacuationCases):
    @pytest.fixture
    def database(self) -> MemoryDatabase:
        return MemoryDatabase()
