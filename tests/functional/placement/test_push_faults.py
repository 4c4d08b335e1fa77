"""A fault at each HTTP request of a push of the mirror: a repeat, by the same mirror or after a
restart, ends with the wanted tree, and nothing that others have set is lost.
"""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from keystoneauth1 import token_endpoint
from msgspec.structs import replace

from rtagent.model.device import Device
from rtagent.model.node_state import restore
from rtagent.model.policy import PlacementPolicy
from rtagent.pci.specs import parse_specs
from rtagent.placement.mirror import PlacementMirror
from rtagent.placement.provider import Ownership
from rtagent.placement.schedule import LAST_RETRY
from tests.functional.placement.conftest import MirroredNode, connect
from tests.functional.placement.published_host import offered
from tests.servers import Placement
from tests.servers.http_relay import Fault, HttpRelay
from tests.support.device_states import policy as pci_policy
from tests.support.hosts import ManualClock, host, stored, uid
from tests.support.pci_hosts import GPU_0, GPU_1, GPU_IDS, gpu, record

#: The client's time-out in seconds: longer than any answer, except to a hanging request.
TIMEOUT = 2.0
PCI = pci_policy(parse_specs([json.dumps(GPU_IDS)]), report_in_placement=True)
#: What others have set on the root provider.
TRAIT, CLASS = "CUSTOM_GOLD", "CUSTOM_FOREIGN"


class PushedNode(MirroredNode):
    """A node whose pushes the test runs, through a relay.

    :ivar relay: in front of Placement. :ivar foreign: whether others have set something.
    """

    def __init__(self, server: Placement, relay: HttpRelay, state_path: Path) -> None:
        super().__init__(server, state_path / uid())
        self.state_path.mkdir()
        self.relay, self.clock, self.foreign = relay, ManualClock(), False
        self.change_everything(0)
        self.restart()

    def restart(self) -> None:
        """Start a mirror, as a new process does: it has only the file with what it owns."""
        client = connect(token_endpoint.Token(self.relay.url, self.server.token), TIMEOUT)
        ownership = Ownership(self.state_path)
        self.mirror = PlacementMirror(client, self.wanted, ownership, self.clock)
        self.mirror.wake()

    def change_everything(self, number: int) -> None:
        """Another device, another memory, and another provider file.

        :param number: classes and traits with another number are new to Placement.
        """
        device: Device = gpu((GPU_0, GPU_1)[number % 2], 0)
        name = f"CUSTOM_{self.uuid[-4:].upper()}_{number}"
        policy = host(
            pci=PCI,
            placement=PlacementPolicy(
                additional=(offered(name, 4),), additional_traits={"": frozenset({name})}
            ),
        ).policy
        devices = tuple(record([device]).values())
        self.state = restore(replace(stored(self.state), devices=devices), policy)
        self.change(memory_mb=1000 + number)

    def push(self) -> list[tuple[str, str]]:
        """Push what has changed, and return the requests."""
        before = len(self.relay.seen)
        self.mirror.wake()
        self.clock.advance(LAST_RETRY + 1)
        assert self.mirror.turn()
        return self.relay.seen[before:]

    def settle(self) -> None:
        """Repeat the push until it succeeds."""
        self.push()
        while self.mirror.error is not None:
            error, _ = self.mirror.error, self.push()
            assert self.mirror.error is None, f"not published: {error}"

    def interfere(self) -> None:
        """Set something of another client's on the root provider."""
        self.set_traits(self.traits | {TRAIT})
        assert self.admin.put(f"/resource_classes/{CLASS}").ok
        self.set_inventories({**self.inventories, CLASS: {"total": 3}})
        self.foreign = True

    def check(self) -> None:
        """Check that Placement has the wanted tree, and what others have set."""
        wanted = self.wanted()
        assert wanted is not None
        expected = {
            each.name: (
                {name: each.inventories[name].total for name in each.inventories},
                set(each.traits),
            )
            for each in wanted.providers
        }
        if self.foreign:
            totals, traits = expected[self.name]
            expected[self.name] = ({**totals, CLASS: 3}, traits | {TRAIT})
        assert self._found() == expected

    def _found(self) -> dict[str, tuple[dict[str, int], set[str]]]:
        """The totals and traits of each provider in Placement, by name."""
        tree = self.admin.get(f"/resource_providers?in_tree={self.uuid}").json()
        found = {}
        for each in tree["resource_providers"]:
            path = f"/resource_providers/{each['uuid']}"
            inventories = self.admin.get(f"{path}/inventories").json()["inventories"]
            traits = self.admin.get(f"{path}/traits").json()["traits"]
            totals = {name: record["total"] for name, record in inventories.items()}
            found[each["name"]] = (totals, set(traits))
        return found

    def remove(self) -> None:
        """Remove the providers, whose names other tests use, too."""
        tree = self.admin.get(f"/resource_providers?in_tree={self.uuid}").json()
        for each in sorted(
            tree["resource_providers"], key=lambda each: each["parent_provider_uuid"] is None
        ):
            assert self.admin.delete(f"/resource_providers/{each['uuid']}").status_code == 204


@pytest.fixture
def relay(server: Placement) -> Iterator[HttpRelay]:
    server.start()
    with HttpRelay(server.url) as relay:
        yield relay


def overcome(node: PushedNode, number: int, fault: Fault, *, killed: bool) -> bool:
    """Push with a fault at one request, and repeat that until it succeeds.

    :returns: whether the push had such a request.
    """
    node.relay.fail(number, fault)
    requests = node.push()
    node.relay.heal()
    if killed:
        node.restart()
    node.settle()
    node.check()
    assert node.push() == []
    return len(requests) > number


@pytest.mark.parametrize(
    ("fault", "killed", "reads", "first"),
    [
        (Fault.UNANSWERED, True, False, 0),
        (Fault.UNANSWERED, False, False, 1),
        (Fault.CONFLICT, False, False, 2),
        (Fault.NONSENSE, False, False, 0),
        (Fault.ERROR, False, True, 0),
    ],
)
def test_a_fault_at_each_request_is_overcome(
    server, relay, tmp_path, fault, killed, reads, first, long
):
    """:param reads: the push reads everything before it writes.
    :param first: request, from which on a short run tries every third one: all of them together
        have each.
    """
    node = PushedNode(server, relay, tmp_path)
    node.settle()
    node.interfere()
    node.mirror.forget()
    node.settle()
    numbers = itertools.count() if long else itertools.count(first, 3)
    for turn, number in enumerate(numbers, 1):
        node.change_everything(turn)
        if reads:
            node.restart()
        if not overcome(node, number, fault, killed=killed):
            break
    assert number > (11 if reads else 6)
    node.remove()


def test_a_kill_after_each_request_of_the_first_push_is_overcome(server, relay, tmp_path, long):
    """A short run tries every third one."""
    for number in itertools.count(0, 1 if long else 3):
        node = PushedNode(server, relay, tmp_path)
        faulted = overcome(node, number, Fault.UNANSWERED, killed=True)
        node.remove()
        if not faulted:
            break
    assert number > 7


def test_a_request_that_hangs_is_overcome(server, relay, tmp_path):
    node = PushedNode(server, relay, tmp_path)
    node.settle()
    node.change_everything(1)
    assert overcome(node, 2, Fault.HANGING, killed=False)
    node.remove()
