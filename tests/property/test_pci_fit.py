"""The fit against one that tries everything: it grants what may be granted, and nothing else."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from rtagent.model.device import SRIOV_PF, SRIOV_VF, Device, PciDevice, Tags
from rtagent.model.wanted import Wanted
from rtagent.pci.fit import Fitted
from rtagent.pci.request import DeviceRequest
from rtagent.pci.states import Hold
from tests.pci_hosts import fitting

SOCKETS = {0: frozenset({0}), 1: frozenset({0}), 2: frozenset({1})}
NODES = st.sampled_from([None, 0, 1, 2])
OWNERS = ("me", "another")


@st.composite
def devices(draw):
    """Two cards with up to three virtual functions each, and plain devices, some in groups."""
    there: list[tuple[str, str, str | None, int | None]] = []
    for card in draw(st.lists(st.integers(0, 3), max_size=2)):
        pf, node = f"0000:{len(there) + 1:02x}:00.0", draw(NODES)
        there.append((pf, SRIOV_PF, None, node))
        there += [(f"{pf[:-1]}{n + 1}", SRIOV_VF, pf, node) for n in range(card)]
    there += [
        (f"0000:f{n}:00.0", "type-PCI", None, draw(NODES)) for n in range(draw(st.integers(0, 4)))
    ]
    return {
        address: PciDevice(
            device=Device(
                address=address,
                vendor_id="8086",
                product_id=draw(st.sampled_from(["0001", "0002"])),
                dev_type=dev_type,
                parent_addr=parent,
                numa_node=node,
                iommu_group=draw(st.sampled_from([None, None, 1, 2])),
            ),
            tags=Tags(live_migratable=draw(st.booleans())),
            listed=draw(st.sampled_from([True, True, True, False])),
        )
        for address, dev_type, parent, node in there
    }


requests = st.lists(
    st.builds(
        DeviceRequest,
        request_id=st.sampled_from(["a", "b"]),
        count=st.integers(1, 2),
        numa_policy=st.sampled_from(["required", "legacy", "preferred", "socket"]),
        alternatives=st.lists(
            st.builds(
                Wanted,
                dev_type=st.sampled_from([None, None, SRIOV_PF, SRIOV_VF]),
                product_id=st.sampled_from([None, "0001"]),
                live_migratable=st.sampled_from([None, True]),
            ),
            min_size=1,
            max_size=2,
        ).map(tuple),
    ),
    max_size=3,
)
cell_sets = st.frozensets(st.integers(0, 2))


@st.composite
def questions(draw):
    there = draw(devices())
    holds = (
        [
            Hold(
                address=address,
                owner_id=draw(st.sampled_from(OWNERS)),
                allocated=draw(st.booleans()),
            )
            for address in draw(st.lists(st.sampled_from(sorted(there)), unique=True, max_size=2))
            if there
        ]
        if there
        else []
    )
    mine = [hold.address for hold in holds if hold.owner_id == "me"]
    offered = {address: "a" for address in mine if draw(st.booleans())}
    return there, holds, offered, draw(requests)


def wanted_by(request, tracked):
    device, tags = tracked.device, tracked.tags
    return any(
        (device.dev_type != SRIOV_PF if w.dev_type is None else device.dev_type == w.dev_type)
        and w.product_id in (None, device.product_id)
        and w.live_migratable in (None, tags.live_migratable)
        for w in request.alternatives
    )


def near(request, node, cells):
    if not cells or request.numa_policy == "preferred":
        return True
    if request.numa_policy == "legacy" and node is None:
        return True
    if request.numa_policy == "socket" and node is not None:
        return any(SOCKETS[node] & SOCKETS[cell] for cell in cells)
    return node in cells


def free(tracked, there, holds, offered):
    """Whether nothing but the guest's place speaks against it."""
    device = tracked.device
    if not tracked.listed:
        return False
    for hold in holds:
        other = there[hold.address].device
        if other.address == device.address and device.address not in offered:
            return False
        if device.address == other.parent_addr or other.address == device.parent_addr:
            return False
        together = device.iommu_group is not None and device.iommu_group == other.iommu_group
        if together and hold.owner_id != "me":
            return False
    return True


def apart(chosen, there):
    """No device twice, and no physical function with a virtual one of its own."""
    if len(set(chosen)) < len(chosen):
        return False
    return not any(there[a].device.parent_addr in chosen for a in chosen)


def tried(there, holds, offered, asked, cells):
    """Whether there is any way."""
    ways = []
    for request in asked:
        fit = [
            address
            for address, tracked in there.items()
            if wanted_by(request, tracked)
            and near(request, tracked.device.numa_node, cells)
            and free(tracked, there, holds, offered)
        ]
        ways.append(list(itertools.combinations(fit, request.count)))
    return any(
        apart([address for part in way for address in part], there)
        for way in itertools.product(*ways)
    )


@given(questions(), cell_sets)
def test_it_grants_what_may_be_granted_and_nothing_else(question, cells):
    there, holds, offered, asked = question
    fit = fitting(there, asked, holds, sockets=SOCKETS, offered=offered)
    answer = fit.fit(cells)
    assert isinstance(answer, Fitted) is tried(there, holds, offered, asked, cells)
    if not isinstance(answer, Fitted):
        assert answer.reasons
        return
    chosen = [device.address for device in answer.devices]
    assert apart(chosen, there)
    assert len(chosen) == sum(request.count for request in asked)
    assert all(free(there[address], there, holds, offered) for address in chosen)
    left = list(answer.devices)
    for request in asked:
        mine, left = left[: request.count], left[request.count :]
        for device in mine:
            tracked = there[device.address]
            assert device.request_id == request.request_id
            assert wanted_by(request, tracked)
            assert near(request, tracked.device.numa_node, cells)


@given(questions(), st.frozensets(st.integers(0, 2), min_size=1), st.integers(0, 2))
def test_more_cells_never_make_it_harder(question, cells, another):
    there, holds, offered, asked = question
    fit = fitting(there, asked, holds, sockets=SOCKETS, offered=offered)
    if fit.possible(cells):
        assert fit.possible(cells | {another})
    assert bool(fit.refusal(tuple(sorted(cells)))) is not fit.possible(cells)


@given(questions(), cell_sets)
def test_the_order_in_which_devices_are_told_does_not_matter(question, cells):
    there, holds, offered, asked = question
    backwards = dict(reversed(there.items()))
    first = fitting(there, asked, holds, sockets=SOCKETS, offered=offered).fit(cells)
    second = fitting(backwards, asked, holds[::-1], sockets=SOCKETS, offered=offered).fit(cells)
    assert first == second
