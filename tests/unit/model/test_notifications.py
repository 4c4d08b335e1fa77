"""The events of changes: one for each step of a claim, a move, a device and the node."""

from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from rtagent.model.change import Change, Event
from rtagent.model.claim import RELEASED
from rtagent.model.event import DrainPayload
from rtagent.model.node import Drain
from rtagent.model.notifications import notifications_of
from tests.support.hosts import NOON, host
from tests.support.move_host import Host, facts
from tests.support.pci_hosts import GPU_0, gpu, record
from tests.support.stored_values import claim

CLAIM = claim(1)
DEVICE = record([gpu()])[GPU_0]
ABSENT, QUARANTINED = replace(DEVICE, present=False), replace(DEVICE, quarantine="odd")
DRAIN = Drain(reason="new disks", deadline=NOON, since=NOON)


@dataclass
class Told(Host):
    """:ivar types: of the events, in order."""

    types: list[str] = field(default_factory=list)

    def granted(self, rule, *args, **kwargs):
        def told(state, *rest, **more):
            decision = rule(state, *rest, **more)
            self.types += [each.type for each in notifications_of(state, decision.change)]
            return decision

        return super().granted(told, *args, **kwargs)


def events(state, **parts):
    change = Change(cause="test", at=NOON, **parts)
    return [each.type for each in notifications_of(state, change)]


def test_each_step_of_a_move_has_its_event():
    source, dest, move = Told.named(1), Told.named(2), facts()
    source.build()
    dest.claim_move(move)
    source.start_move_out(move)
    dest.finish_move(move)
    begun = ["claim.create", "claim.activate", "claim.update", "move.start"]
    arrived = ["claim.create", "move.start", "claim.activate", "move.finish"]
    assert (source.types, dest.types) == (begun, arrived)
    confirmed = Told(source.state, source.now)
    confirmed.drop_at_source(move)
    assert confirmed.types == ["claim.release", "move.confirm"]
    dest.drop_at_dest(move)
    source.finish_revert(move)
    assert source.types == [*begun, "claim.activate", "move.revert"]
    assert dest.types == [*arrived, "claim.release", "move.revert"]


@pytest.mark.parametrize(
    ("fields", "action", "told"),
    [
        ({"suspect": "lost"}, "suspect", "claim.suspect"),
        ({"state": RELEASED}, "expire", "claim.expire"),
    ],
)
def test_what_audits_do_to_a_claim_has_events_of_its_own(fields, action, told):
    event = Event(before=CLAIM, after=replace(CLAIM, **fields), action=action)
    assert events(host(), events=(event,)) == [told]


@pytest.mark.parametrize(
    ("before", "after", "types"),
    [
        (None, DEVICE, ["pci_device.appear"]),
        (DEVICE, None, ["pci_device.vanish"]),
        (DEVICE, ABSENT, ["pci_device.vanish"]),
        (ABSENT, None, []),
        (ABSENT, DEVICE, ["pci_device.appear"]),
        (DEVICE, QUARANTINED, ["pci_device.quarantine"]),
        (QUARANTINED, DEVICE, ["pci_device.clear"]),
    ],
)
def test_each_change_of_a_device_has_its_event(before, after, types):
    state = host()
    state = replace(state, devices=state.devices.changed((), (before,) if before else ()))
    change = {"devices": (after,)} if after else {"device_removals": (GPU_0,)}
    assert events(state, **change) == types


def test_a_change_of_the_node_has_its_event():
    state = host()
    assert events(state, drain=DRAIN) == ["compute_node.drain"]
    assert events(replace(state, drain=DRAIN), undrained=True) == ["compute_node.undrain"]
    begun = Change(cause="test", at=NOON, drain=DRAIN)
    for change in (begun, replace(begun, drain=None, undrained=True)):
        [told] = notifications_of(replace(state, drain=DRAIN), change)
        assert isinstance(told.payload, DrainPayload)
        assert (told.payload.reason, told.payload.deadline) == ("new disks", DRAIN.deadline)
    assert events(state, failed_builds=1) == ["compute_node.update"]
    assert events(state, failed_builds=state.failed_builds) == []
