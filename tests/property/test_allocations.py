"""Claims that follow allocations, compared with an exhaustive search.

The host has devices in NUMA cells, cards with virtual functions, mediated devices, and a class that
a provider file offers. Some are in use. A claim is granted exactly if devices and units exist that
the allocations name, and it gets these. So does a second claim of the same guest, for a resize.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rtagent import claims
from rtagent.errors import AllocationMismatch
from rtagent.lifecycle.moves.destination import move_claim
from rtagent.model.claim import Claim
from rtagent.model.decision import Granted, Refused
from rtagent.model.device import MdevType
from rtagent.model.migration import MoveRequest
from rtagent.model.node_state import NodeState
from rtagent.model.policy import NumaPolicy, PlacementPolicy
from rtagent.model.provider_names import device_suffix, mdev_suffix, provider_uuid
from rtagent.model.request import Allocation, PciRequest
from tests.support.device_states import VGPU_TYPE, after, device_host, policy, running
from tests.support.hosts import NODE, NOON, call, request
from tests.support.pci_hosts import GPU_0, GPU_1, PF_0, gpu, nic, record
from tests.support.provider_files import additional

PF_1 = "0000:a0:00.0"
MDEV_GPUS = ("0000:0a:00.0", "0000:8a:00.0")
TYPES = (MdevType(id="nvidia-11", device_api="vfio-pci", available_instances=2),)
#: The recorded devices that an alias asks for, with their NUMA cells.
GPUS = {GPU_0: 0, GPU_1: 1}
VFS = {PF_0: 0, PF_1: 1}
GPU_CLASS, VF_CLASS, FOO = "CUSTOM_PCI_10DE_13F1", "CUSTOM_PCI_8086_154C", "CUSTOM_FOO"
FOO_TOTAL = 3


def on(suffix: str) -> str:
    return provider_uuid(NODE, PlacementPolicy(), suffix)


ROOT = on("")
#: Provider, class, cell, number of devices or units.
POOLS = (
    *((on(device_suffix(address)), GPU_CLASS, cell, 1) for address, cell in GPUS.items()),
    *((on(device_suffix(address)), VF_CLASS, cell, 2) for address, cell in VFS.items()),
    *((on(mdev_suffix(address)), "VGPU", None, 2) for address in MDEV_GPUS),
    (ROOT, FOO, None, FOO_TOTAL),
)
CELL = {uuid: cell for uuid, _, cell, _ in POOLS}


def empty_host() -> NodeState:
    devices = record(
        [
            *(gpu(address, cell) for address, cell in GPUS.items()),
            *(vf for pf, cell in VFS.items() for vf in tuple(nic(pf, 2, cell))[1:]),
            *(replace(gpu(address), product_id="1234", mdev_types=TYPES) for address in MDEV_GPUS),
        ]
    )
    pci = policy(mdev_types=(VGPU_TYPE,), report_in_placement=True)
    state = device_host(devices, pci=pci)
    foo = PlacementPolicy(additional=(additional(FOO, FOO_TOTAL),))
    # Every CPU is shared, so that CPUs never decide.
    free = replace(state.policy, numa=NumaPolicy(), placement=foo)
    return replace(state, policy=free)


def build(needs: Mapping[str, int], near: bool, owner: str | None = None):
    """Return a request for a guest with one cell; ``near``: its devices are on that cell."""
    names = {"gpu": needs.get("gpu", 0), "vf": needs.get("vf", 0), "vf2": needs.get("vf2", 0)}
    pci_requests = tuple(
        # A resize keeps the requests of ports.
        PciRequest(
            count=count, request_id=name, alias_name=name.removesuffix("2"), source="neutron_port"
        )
        for name, count in names.items()
        if count
    )
    specs = {
        "hw:numa_nodes": "1",
        "hw:pci_numa_affinity_policy": "required" if near else "preferred",
        **{f"resources:{name}": str(needs[name]) for name in ("VGPU", FOO) if needs.get(name)},
    }
    instance = {"pci_requests": pci_requests}
    return request(1, 64, owner=owner, extra_specs=specs, instance=instance)


def allocations(parts: Iterable[tuple[str, str]]) -> dict[str, Allocation]:
    """Return what the guest of `build` has, and one of each class at each provider."""
    found: dict[str, Counter[str]] = {ROOT: Counter({"VCPU": 1, "MEMORY_MB": 64})}
    for uuid, name in parts:
        found.setdefault(uuid, Counter()).update([name])
    return {uuid: Allocation(resources=dict(numbers)) for uuid, numbers in found.items()}


def units(claim: Claim) -> Iterator[tuple[str, str]]:
    """Yield provider and class of each device, unit and quantity of a claim."""
    for device in claim.pci:
        yield device.provider or "", GPU_CLASS if device.product_id == "13f1" else VF_CLASS
    for unit in claim.resources:
        yield unit.provider or "", unit.resource_class
    for each in claim.quantities:
        yield from [(each.provider, each.resource_class)] * each.quantity


def can_be_granted(
    used: Counter[tuple[str, str]],
    needs: Mapping[str, int],
    parts: Counter[tuple[str, str]],
    mapping: Mapping[str, tuple[str, ...]],
    near: bool,
) -> bool:
    """Try every assignment of allocated devices to the requests."""
    sums = Counter[str]()
    for (_, name), number in parts.items():
        sums[name] += number
    vfs = needs.get("vf", 0) + needs.get("vf2", 0)
    wanted = {GPU_CLASS: needs.get("gpu", 0), VF_CLASS: vfs}
    wanted |= {name: needs.get(name, 0) for name in ("VGPU", FOO)}
    if any(sums[name] != number for name, number in wanted.items()):
        return False
    there = {(uuid, name): number for uuid, name, _, number in POOLS}
    if any(number + used[pool] > there[pool] for pool, number in parts.items()):
        return False
    devices = [uuid for uuid, name in parts.elements() if name in (GPU_CLASS, VF_CLASS)]
    if near and len({CELL[uuid] for uuid in devices}) > 1:
        return False
    requests = [name for name in ("vf", "vf2") for _ in range(needs.get(name, 0))]
    cards = [uuid for uuid, name in parts.elements() if name == VF_CLASS]
    gpus = [uuid for uuid, name in parts.elements() if name == GPU_CLASS]
    return all(uuid in mapping.get("gpu", (uuid,)) for uuid in gpus) and any(
        all(uuid in mapping.get(name, (uuid,)) for name, uuid in zip(requests, order, strict=True))
        for order in itertools.permutations(cards)
    )


pools = st.sampled_from([(uuid, name) for uuid, name, _, _ in POOLS])
needed = st.fixed_dictionaries(
    {}, optional={name: st.integers(1, 2) for name in ("gpu", "vf", "vf2", "VGPU", FOO)}
)


@st.composite
def cases(draw):
    """What a guest needs, and what is allocated to it, mostly enough."""
    needs, parts = draw(needed), Counter[tuple[str, str]]()
    classes = {"gpu": GPU_CLASS, "vf": VF_CLASS, "vf2": VF_CLASS}
    for name, number in needs.items():
        of_class = [(uuid, each) for uuid, each, _, _ in POOLS if each == classes.get(name, name)]
        parts.update(draw(st.sampled_from(of_class)) for _ in range(number))
    if draw(st.sampled_from([False] * 5 + [True])):
        parts.update([draw(pools)])
    mapping = {}
    for name in needs.keys() & classes.keys():
        if draw(st.sampled_from([False, True])):
            allocated = sorted({uuid for uuid, each in parts if each == classes[name]})
            some = st.lists(st.sampled_from(allocated), min_size=1, unique=True)
            mapping[name] = tuple(draw(some))
    return needs, parts, mapping, draw(st.booleans())


#: What other guests have.
others_have = st.lists(st.lists(pools, max_size=3).map(Counter), max_size=2)


def needs_of(parts: Counter[tuple[str, str]]) -> dict[str, int]:
    """Return what a guest needs that has these allocations."""
    names = {GPU_CLASS: "gpu", VF_CLASS: "vf"}
    found = Counter[str]()
    for (_, name), number in parts.items():
        found[names.get(name, name)] += number
    return dict(found)


def following(case, owner: str | None = None):
    """Return the request of a case."""
    needs, parts, mapping, near = case
    whole = allocations(parts.elements())
    return replace(build(needs, near, owner), allocations=whole, provider_mapping=mapping)


def outcome(state: NodeState, used: Counter[tuple[str, str]], case, decide):
    """Decide a claim that follows its allocations, and compare it with a search.

    Return the state after it, and the claim or None.

    :param used: what the claim cannot have. :param decide: decides the request of the case.
    """
    needs, parts, mapping, near = case
    expected = can_be_granted(used, needs, parts, mapping, near)
    try:
        decision = decide()
    except AllocationMismatch:
        assert not expected
        return state, None
    assert isinstance(decision, Granted) is expected
    if isinstance(decision, Refused):
        return state, None
    state, claim = after(state, decision)
    assert Counter(units(claim)) == parts
    for device in claim.pci:
        assert device.provider in mapping.get(device.request_id, (device.provider,))
    return state, claim


@settings(max_examples=2 * settings.default.max_examples)
@given(others_have, cases(), cases())
def test_claims_get_exactly_what_is_allocated_to_them(others, first, second):
    state, used = empty_host(), Counter[tuple[str, str]]()
    for theirs in others:
        case = needs_of(theirs), theirs, dict[str, tuple[str, ...]](), False
        asked = following(case)
        build_it = partial(claims.instance_claim, state, call(), NOON, asked)
        state, claim = outcome(state, used, case, build_it)
        used += theirs if claim else Counter()

    build_it = partial(claims.instance_claim, state, call(), NOON, following(first))
    state, claim = outcome(state, used, first, build_it)
    if claim is None:
        return
    # A resize on this host: the guest keeps its devices and units; the quantities of both count.
    state = running(state, claim)
    used += Counter({pool: number for pool, number in first[1].items() if pool[1] == FOO})
    bigger = following(second, claim.owner_id)
    move = MoveRequest(build=bigger, migration="resize", old_flavor=claim.flavor)
    outcome(state, used, second, partial(move_claim, state, call("resize_claim"), NOON, move))
