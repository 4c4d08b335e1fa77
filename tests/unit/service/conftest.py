"""A node in memory: store, hypervisor, clock and tracker, and what they report."""

import pytest
from msgspec.structs import replace

from rtagent.audit import Auditor
from rtagent.db.failing import FailingStore
from rtagent.db.memory import MemoryServiceRegistry, MemoryStore
from rtagent.kernel import restored
from rtagent.model.node import NodeRecord, Writer
from rtagent.model.policy import Policy
from rtagent.service.gate import Gate
from rtagent.tracker import ResourceTracker
from rtagent.virt.fake import FakeHypervisor
from tests.builders import NODE, ManualClock

WRITER = Writer(machine_id="m", boot_id="b", state_path="/s")


class Notes:
    """A reporter that remembers."""

    def __init__(self) -> None:
        self.parts: dict[str, str] = {}
        self.sentences: list[tuple[str, str]] = []

    def timed(self, name: str, purpose: str, seconds: float) -> None:
        pass

    def counted(self, name: str, label: str, number: int = 1) -> None:
        pass

    def health(self, part: str, status: str, output: str = "") -> None:
        self.parts[part] = f"{status}: {output}" if output else status

    def said(self, level: str, sentence: str) -> None:
        self.sentences.append((level, sentence))


class World:
    """One enrolled node with everything around it."""

    def __init__(self) -> None:
        self.clock, self.notes = ManualClock(), Notes()
        self.memory = MemoryStore()
        self.registry = MemoryServiceRegistry(self.memory.disk)
        self.store = FailingStore(self.memory)
        self.hypervisor = FakeHypervisor(hostname=NODE.hypervisor_hostname)
        self.tracker = self.enroll()
        self.gate = Gate(self.tracker)
        self.auditor = Auditor(self.tracker, self.hypervisor, self.clock, self.notes)

    def enroll(self) -> ResourceTracker:
        """Become the node's writer; a writer of before is fenced."""

        def rule(records: list[NodeRecord]) -> NodeRecord:
            if not records:
                return NodeRecord(node=NODE, epoch=1, revision=0, writer=WRITER)
            return replace(records[0], epoch=records[0].epoch + 1)

        stored = self.store.enroll(NODE.uuid, NODE.hypervisor_hostname, rule)
        return ResourceTracker(self.store, self.clock, restored(stored, Policy()), self.notes)


@pytest.fixture
def world():
    return World()
