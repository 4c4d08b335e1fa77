"""The device fit compared with an exhaustive search: it grants exactly what can be granted."""

import itertools
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from rtagent.model.device import SRIOV_PF, SRIOV_VF, Device, DeviceCriteria, PciDevice, Tags
from rtagent.pci.device_users import DeviceAllocation
from rtagent.pci.fit import FittedDevices
from rtagent.pci.matching import DeviceShares
from rtagent.pci.requests import DeviceRequest
from tests.support.pci_hosts import device_fit

SOCKETS = {0: frozenset({0}), 1: frozenset({0}), 2: frozenset({1})}
NODES = st.sampled_from([None, 0, 1, 2])
OWNERS = ("me", "another")


@st.composite
def hosts(draw):
    """Two cards with up to three virtual functions each, and plain devices, some in groups."""
    layout: list[tuple[str, str, str | None, int | None]] = []
    for vfs in draw(st.lists(st.integers(0, 3), max_size=2)):
        pf, node = f"0000:{len(layout) + 1:02x}:00.0", draw(NODES)
        layout.append((pf, SRIOV_PF, None, node))
        layout += [(f"{pf[:-1]}{n + 1}", SRIOV_VF, pf, node) for n in range(vfs)]
    layout += [
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
        for address, dev_type, parent, node in layout
    }


requests = st.lists(
    st.builds(
        DeviceRequest,
        request_id=st.sampled_from(["a", "b"]),
        count=st.integers(1, 2),
        numa_policy=st.sampled_from(["required", "legacy", "preferred", "socket"]),
        alternatives=st.lists(
            st.builds(
                DeviceCriteria,
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
def cases(draw):
    """Devices, their allocations, the reusable ones of the owner "me", and requests."""
    devices = draw(hosts())
    allocations = (
        [
            DeviceAllocation(
                address=address,
                owner_id=draw(st.sampled_from(OWNERS)),
                allocated=draw(st.booleans()),
            )
            for address in draw(st.lists(st.sampled_from(sorted(devices)), unique=True, max_size=2))
        ]
        if devices
        else []
    )
    own = [allocation.address for allocation in allocations if allocation.owner_id == "me"]
    reusable = {address: "a" for address in own if draw(st.booleans())}
    return devices, allocations, reusable, draw(requests)


def meets(request, recorded):
    """Whether the device meets the criteria of the request."""
    device, tags = recorded.device, recorded.tags
    return any(
        (
            device.dev_type != SRIOV_PF
            if criteria.dev_type is None
            else device.dev_type == criteria.dev_type
        )
        and criteria.product_id in (None, device.product_id)
        and criteria.live_migratable in (None, tags.live_migratable)
        for criteria in request.alternatives
    )


def near(request, node, cells):
    """Whether the NUMA policy of the request accepts the node."""
    if not cells or request.numa_policy == "preferred":
        return True
    if request.numa_policy == "legacy" and node is None:
        return True
    if request.numa_policy == "socket" and node is not None:
        return any(SOCKETS[node] & SOCKETS[cell] for cell in cells)
    return node in cells


def free(recorded, devices, allocations, reusable):
    """Whether the owner "me" can get the device, wherever its guest is."""
    device = recorded.device
    if not recorded.listed:
        return False
    for allocation in allocations:
        other = devices[allocation.address].device
        if other.address == device.address and device.address not in reusable:
            return False
        if device.address == other.parent_addr or other.address == device.parent_addr:
            return False
        same_group = device.iommu_group is not None and device.iommu_group == other.iommu_group
        if same_group and allocation.owner_id != "me":
            return False
    return True


def compatible(chosen, devices):
    """Whether no device is chosen twice, and no virtual function with its physical function."""
    if len(set(chosen)) < len(chosen):
        return False
    return not any(devices[address].device.parent_addr in chosen for address in chosen)


@st.composite
def shares_of(draw, devices, requests):
    """What Placement allocated: virtual functions are counted on their physical function, and some
    devices are not reported."""
    providers = {
        address: (recorded.device.dev_type == SRIOV_VF and recorded.device.parent_addr) or address
        for address, recorded in devices.items()
        if not recorded.tags.live_migratable or draw(st.booleans())
    }
    # Mostly providers of suitable devices: other allocations are refused whatever the fit does.
    numbers: Counter[str] = Counter()
    mapped: dict[str, frozenset[str]] = {}
    for request in requests:
        suitable = sorted(a for a, recorded in devices.items() if meets(request, recorded))
        for _ in range(request.count if suitable else 0):
            chosen = providers.get(draw(st.sampled_from(suitable)))
            numbers.update([chosen] if chosen else [])
        known = sorted({*numbers, *(providers[a] for a in suitable if a in providers)})
        if known and draw(st.sampled_from([False, False, True])):
            some = st.frozensets(st.sampled_from(known), min_size=1, max_size=2)
            mapped[request.request_id] = draw(some)
    return DeviceShares(numbers=numbers, providers=providers, mapped=mapped)


def follows(choice, requests, shares):
    """Whether the devices of each request are those that Placement allocated."""
    if shares is None:
        return True
    providers = [shares.providers.get(address) for part in choice for address in part]
    if Counter(filter(None, providers)) != Counter(shares.numbers):
        return False
    return all(
        shares.providers.get(address) in shares.mapped[request.request_id]
        for request, part in zip(requests, choice, strict=True)
        for address in part
        if request.request_id in shares.mapped
    )


def can_be_granted(devices, allocations, reusable, requests, cells, shares=None):
    """Try every combination of devices."""
    choices = []
    for request in requests:
        suitable = [
            address
            for address, recorded in devices.items()
            if meets(request, recorded)
            and near(request, recorded.device.numa_node, cells)
            and free(recorded, devices, allocations, reusable)
        ]
        choices.append(list(itertools.combinations(suitable, request.count)))
    return any(
        compatible([address for part in choice for address in part], devices)
        and follows(choice, requests, shares)
        for choice in itertools.product(*choices)
    )


@given(cases(), cell_sets)
def test_fit_grants_exactly_what_can_be_granted(case, cells):
    devices, allocations, reusable, requests = case
    fit = device_fit(devices, requests, allocations, sockets=SOCKETS, reusable=reusable)
    result = fit.fit(cells)
    backwards, others = dict(reversed(devices.items())), allocations[::-1]
    again = device_fit(backwards, requests, others, sockets=SOCKETS, reusable=reusable)
    assert again.fit(cells) == result, "the order of devices or allocations matters"
    granted = isinstance(result, FittedDevices)
    assert granted is can_be_granted(devices, allocations, reusable, requests, cells)
    if not granted:
        assert result.reasons
        return
    chosen = [device.address for device in result.devices]
    assert compatible(chosen, devices)
    assert len(chosen) == sum(request.count for request in requests)
    assert all(free(devices[address], devices, allocations, reusable) for address in chosen)
    remaining = list(result.devices)
    for request in requests:
        assigned, remaining = remaining[: request.count], remaining[request.count :]
        for device in assigned:
            recorded = devices[device.address]
            assert device.request_id == request.request_id
            assert meets(request, recorded)
            assert near(request, recorded.device.numa_node, cells)


@settings(max_examples=3 * settings.default.max_examples)  # most allocations do not fit
@given(cases(), cell_sets, st.data())
def test_fit_that_follows_an_allocation_grants_exactly_what_can_be_granted(case, cells, data):
    devices, allocations, reusable, requests = case
    shares = data.draw(shares_of(devices, requests))
    options = {"sockets": SOCKETS, "reusable": reusable, "shares": shares}
    result = device_fit(devices, requests, allocations, **options).fit(cells)
    granted = isinstance(result, FittedDevices)
    assert granted is can_be_granted(devices, allocations, reusable, requests, cells, shares)
    if not granted:
        assert result.reasons
        return
    chosen = [device.address for device in result.devices]
    assert compatible(chosen, devices)
    remaining, choice = list(chosen), []
    for request in requests:
        choice.append(remaining[: request.count])
        remaining = remaining[request.count :]
    assert not remaining
    assert follows(choice, requests, shares)


@given(cases(), st.frozensets(st.integers(0, 2), min_size=1), st.integers(0, 2))
def test_more_cells_never_turn_a_grant_into_a_refusal(case, cells, another):
    devices, allocations, reusable, requests = case
    fit = device_fit(devices, requests, allocations, sockets=SOCKETS, reusable=reusable)
    if fit.possible(cells):
        assert fit.possible(cells | {another})
    assert bool(fit.refusal(tuple(sorted(cells)))) is not fit.possible(cells)
