"""What provider files add comes and goes, with devices, restarts, failures and other writers.

After every step Placement has what the files add now, and nothing that they added earlier, apart
from classes with allocations, of which nothing is left.
"""

import json

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from rtagent.errors import PlacementUnavailable
from rtagent.model.policy import COMPUTE_NODE, ProviderEntry, ProviderFiles
from rtagent.model.provider_names import device_suffix, provider_name, provider_uuid
from rtagent.pci.specs import parse_specs
from rtagent.placement.offers import resolve
from rtagent.placement.provider import Ownership
from rtagent.placement.synchroniser import Synchroniser
from rtagent.placement.tree import build
from rtagent.testing.placement import MemoryPlacement
from tests.support.allocating_agents import RECORD
from tests.support.device_states import audited, device_host, policy, seen
from tests.support.hosts import NODE, uid
from tests.support.pci_hosts import GPU_0, GPU_IDS, gpu
from tests.support.provider_files import additional

CLASSES, TRAITS = ("CUSTOM_A", "CUSTOM_B"), ("CUSTOM_C", "CUSTOM_D")
FOREIGN_CLASS = "CUSTOM_FOREIGN"
PCI = policy(parse_specs([json.dumps(GPU_IDS)]), report_in_placement=True)
GPU_SUFFIX = device_suffix(GPU_0)
CHILD = provider_uuid(NODE, device_host(pci=PCI).policy.placement, GPU_SUFFIX)
ROOT_IDS = ({"uuid": COMPUTE_NODE}, {"uuid": NODE.uuid}, {"name": NODE.hypervisor_hostname})
CHILD_IDS = ({"uuid": CHILD}, {"name": provider_name(NODE, GPU_SUFFIX)})
CONSUMER = uid(900)
#: By class the total, and traits.
CONTENT = st.tuples(
    st.dictionaries(st.sampled_from(CLASSES), st.integers(4, 9)),
    st.frozensets(st.sampled_from(TRAITS)),
)
PROVIDER = st.sampled_from([NODE.uuid, CHILD])
#: The host without and with the device.
BARE = device_host({}, pci=PCI)
STATES = (
    audited(BARE, seen(BARE, devices=())),
    audited(BARE, seen(BARE, devices=(gpu(GPU_0, 0),))),
)
Content = tuple[dict[str, int], frozenset[str]]


class OffersMachine(RuleBasedStateMachine):
    """:ivar wanted: what the files add, by the provider's uuid."""

    @initialize()
    def start(self) -> None:
        self.api, self.ownership = MemoryPlacement(), Ownership()
        self.files, self.wanted = ProviderFiles(), dict[str, Content]()
        self.foreign = {NODE.uuid: set[str](), CHILD: set[str]()}
        self.device = True
        self.synchroniser = Synchroniser(self.api, self.ownership)
        self.sync()

    def sync(self) -> None:
        """Publish what the host has now, as the mirror does."""
        state = STATES[self.device]
        offers = resolve(self.files, state)
        assert offers.mistakes == ()
        tree = build(replace(state, policy=offers.added_to(state.policy)), False, True)
        assert tree is not None
        self.synchroniser.sync(tree)

    # -- the operator ------------------------------------------------------------------------------

    @rule(
        root=CONTENT,
        child=CONTENT,
        by=st.sampled_from(ROOT_IDS),
        child_by=st.sampled_from(CHILD_IDS),
    )
    def change_the_files(
        self, root: Content, child: Content, by: dict[str, str], child_by: dict[str, str]
    ) -> None:
        entries = [entry(by, root), entry(child_by, child), entry({"name": "another"}, root)]
        if by != ROOT_IDS[0]:  # which replaces this one
            entries.append(entry(ROOT_IDS[0], child))
        kept = [each for each in entries if each.inventories or each.traits]
        if by != ROOT_IDS[0] and not (root[0] or root[1]):
            root = child
        self.files = ProviderFiles(entries=tuple(kept))
        self.wanted = {NODE.uuid: root, CHILD: child}
        self.sync()

    @rule()
    def remove_the_files(self) -> None:
        self.files, self.wanted = ProviderFiles(), {}
        self.sync()

    @rule(while_down=st.booleans())
    def restart(self, while_down: bool) -> None:
        """:param while_down: the files are removed while the agent is down."""
        if while_down:
            self.files, self.wanted = ProviderFiles(), {}
        self.synchroniser = Synchroniser(self.api, self.ownership)
        self.sync()

    # -- the world ---------------------------------------------------------------------------------

    @rule()
    def plug_or_unplug(self) -> None:
        self.device = not self.device
        self.sync()

    @rule(name=st.sampled_from(["put_traits", "put_inventories", "ensure_classes", "traits"]))
    def fail_and_restart(self, name: str) -> None:
        """A request fails in the midst of a push, and the process ends."""
        self.api.failures = {name: PlacementUnavailable("down")}
        self.sync()
        self.api.failures = {}
        self.restart(while_down=False)

    @rule(uuid=PROVIDER, traits=st.frozensets(st.sampled_from(TRAITS)))
    def another_client_sets_traits(self, uuid: str, traits: frozenset[str]) -> None:
        if not self.exists(uuid):
            return
        shown = self.api.shown(uuid)
        here = set(shown["traits"])
        self.foreign[uuid] = (self.foreign[uuid] | (traits - here)) & traits
        others = [name for name in here if name not in TRAITS]
        inventories = {**shown["inventories"], FOREIGN_CLASS: record(3)}
        self.api.overwrite(uuid, traits=[*others, *traits], inventories=inventories)
        self.synchroniser.forget()
        self.sync()

    @rule(uuid=PROVIDER, name=st.sampled_from(CLASSES), count=st.integers(0, 3))
    def allocate(self, uuid: str, name: str, count: int) -> None:
        """:param count: 0: the consumer goes."""
        if not self.exists(uuid):
            return
        there = self.api.shown(uuid)["inventories"].get(name)
        if count and (there is None or there["reserved"] == there["total"]):
            return
        self.api.allocate(uuid, CONSUMER, {name: count} if count else {})
        self.synchroniser.forget()
        self.sync()

    # -- what must hold ----------------------------------------------------------------------------

    @invariant()
    def placement_has_what_the_files_add(self) -> None:
        for uuid in self.foreign:
            if self.exists(uuid):
                self.check(uuid)
            else:
                self.foreign[uuid] = set()
                assert uuid == CHILD and not self.device

    def check(self, uuid: str) -> None:
        here = uuid == NODE.uuid or self.device
        classes, traits = self.wanted.get(uuid, ({}, frozenset[str]())) if here else ({}, set())
        shown = self.api.shown(uuid)
        used = {name for each in shown["allocations"].values() for name in each}
        for name in CLASSES:
            found = shown["inventories"].get(name)
            if name in classes:
                assert found == record(classes[name]), name
            elif name in used:
                assert found["reserved"] == found["total"], name
            else:
                # A provider of a device that is gone waits as a whole for its last allocation.
                waits = not here and used
                assert found is None or (waits and found["reserved"] == found["total"]), name
        if here:
            assert set(shown["traits"]) & set(TRAITS) == traits | self.foreign[uuid]

    def exists(self, uuid: str) -> bool:
        return self.api.provider(uuid) is not None


def entry(identification: dict[str, str], content: Content) -> ProviderEntry:
    classes, traits = content
    offered = tuple(additional(name, total, reserved=1) for name, total in classes.items())
    return ProviderEntry(file="f", path="$", inventories=offered, traits=traits, **identification)


def record(total: int) -> dict[str, object]:
    return {**RECORD, "total": total, "reserved": 1, "max_unit": total}


# Few and long examples: the state becomes interesting only after some steps.
OffersMachine.TestCase.settings = settings(
    stateful_step_count=40, max_examples=settings.default.max_examples // 2
)
TestOffers = OffersMachine.TestCase
