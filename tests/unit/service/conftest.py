"""A node in memory: store, hypervisor, clock and tracker, and what its parts report."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rtagent.bus import Bus
from rtagent.conf.settings import Settings, SettingsHolder
from rtagent.embedded import EmbeddedNode
from rtagent.errors import DuplicateHost, RtAgentError
from rtagent.model.policy import Policy
from rtagent.service.admission import Admission
from rtagent.service.context import (
    DuplicateChanged,
    Fatal,
    Granting,
    HypervisorLost,
    NodeContext,
    PolicyChanged,
    ServiceChanged,
    StoreReturned,
)
from rtagent.service.loop import Rest
from rtagent.testing.failpoints import FailingStore
from rtagent.testing.hypervisor import FakeHypervisor
from rtagent.testing.memory_store import MemoryServiceRegistry, MemoryStore
from tests.support.configurations import settings
from tests.support.hosts import NODE, ManualClock
from tests.support.trackers import Reports, become_writer

#: No reserved memory, no overcommit: the settings that make the default `Policy`.
OPTIONS = {"reserved_host_memory_mb": 0, "initial_cpu_allocation_ratio": 1.0}


def make_settings(directory: Path, **options: object) -> Settings:
    """Read settings from a file with these options in [DEFAULT]."""
    lines = "".join(f"{name} = {value}\n" for name, value in {**OPTIONS, **options}.items())
    return settings(directory, f"[DEFAULT]\n{lines}")


#: The events of a node that tests look at.
NOTED = (Granting, HypervisorLost, StoreReturned, PolicyChanged, ServiceChanged)


class Events:
    """What was published on a bus. :ivar seen: classes. :ivar errors: the fatal ones."""

    def __init__(self, bus: Bus) -> None:
        self.seen: list[str] = []
        self.errors: list[RtAgentError] = []
        for event in NOTED:
            bus.subscribe(event, lambda event: self.seen.append(type(event).__name__))
        bus.subscribe(Fatal, lambda event: self.errors.append(event.error))


class World:
    """One enrolled node with everything around it."""

    def __init__(self, made: Settings, policy: Policy | None = None) -> None:
        self.policy = policy or Policy()
        self.clock, self.notes, self.bus = ManualClock(), Reports(), Bus()
        self.events = Events(self.bus)
        self.settings = SettingsHolder(made)
        self.context = NodeContext(
            settings=self.settings, clock=self.clock, reporter=self.notes, bus=self.bus
        )
        self.memory = MemoryStore()
        self.registry = MemoryServiceRegistry(self.memory.disk)
        self.store = FailingStore(self.memory)
        self.hypervisor = FakeHypervisor(hostname=NODE.hypervisor_hostname)
        self.node = self.open()
        self.tracker, self.auditor = self.node.tracker, self.node.auditor
        self.admission = Admission(self.tracker)

    def open(self) -> EmbeddedNode:
        """Become the node's writer; an earlier writer is fenced."""
        stored = become_writer(self.store)
        return EmbeddedNode(
            stored, self.policy, self.hypervisor, self.store, self.clock, self.notes, bus=self.bus
        )

    def serve(self) -> None:
        """Audit the host, and open the admission."""
        self.auditor.run("start")
        self.admission.open()

    def duplicated(self, error: DuplicateHost | None) -> None:
        """Publish that another agent has this host name, or has gone."""
        self.bus.publish(DuplicateChanged(error=error))

    def configure(self, **options: Any) -> None:
        """Bring other options of [DEFAULT] into force."""
        now = self.settings.current
        self.settings.current = replace(now, default=replace(now.default, **options))


@pytest.fixture
def world(tmp_path):
    return World(make_settings(tmp_path))


#: Seconds; nothing in these tests takes that long.
PATIENCE = 120.0


class Turns:
    """Turns that a test lets end one by one.

    :ivar began: released when a turn begins. :ivar may_end: a turn waits for it.
    :ivar rest: what the turns return. :ivar error: what they raise instead, if anything.
    """

    def __init__(self) -> None:
        self.number = 0
        self.began, self.may_end = threading.Semaphore(0), threading.Semaphore(0)
        self.rest = Rest()
        self.error: Exception | None = None

    def __call__(self) -> Rest:
        self.number += 1
        self.began.release()
        assert self.may_end.acquire(timeout=PATIENCE)
        if self.error is not None:
            raise self.error
        return self.rest


def assert_pauses(pauses: Sequence[float], *longest: float) -> None:
    """Check that each pause is between the half and the whole of its longest length."""
    assert len(pauses) == len(longest)
    for pause, most in zip(pauses, longest, strict=True):
        assert most / 2 <= pause <= most
