"""The turns that compare the claims of a node that Nova serves with libvirt's domains."""

from types import SimpleNamespace

from rtagent.errors import StoreUnavailable
from rtagent.nova.live_domains import GAP, INTERVAL, DomainAudits
from rtagent.ports import NullReporter
from rtagent.service.context import NodeContext
from rtagent.service.loop import Rest
from rtagent.testing.failpoints import FailingStore
from rtagent.testing.hypervisor import FakeHypervisor
from rtagent.testing.memory_store import MemoryStore
from tests.support.hosts import ManualClock, uid
from tests.support.trackers import tracker_on
from tests.unit.service.conftest import assert_pauses


def test_audits_that_write_nothing_are_repeated_with_back_off():
    store, world = FailingStore(MemoryStore()), FakeHypervisor()
    tracker = tracker_on(store)
    context = NodeContext(
        settings=None, clock=ManualClock(), reporter=NullReporter(), bus=tracker.bus
    )
    audits = DomainAudits(context, SimpleNamespace(tracker=tracker), world, set)
    world.start_domain(uid(), 1, 512)
    store.fail(StoreUnavailable, times=None, on=("commit", "reload"))
    assert_pauses([audits.turn().at_most for _ in range(4)], 0.25, 0.5, 1.0, 2.0)
    store.heal()
    assert tracker.recover()
    assert audits.turn() == Rest(at_least=GAP, at_most=INTERVAL)
