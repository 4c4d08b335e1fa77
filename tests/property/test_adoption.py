"""Adoption of random domains: no unit has two owners, the usage stays, and there is no drift."""

from hypothesis import given
from hypothesis import strategies as st

from rtagent.errors import DomainNotAdoptable
from rtagent.model.assignment import Assignment
from rtagent.model.claim import PCPU
from rtagent.reconcile.adoption import adopt
from rtagent.reconcile.drift import absent, drifts, orphans
from rtagent.virt.libvirt import guest
from rtagent.virt.libvirt.document import HostFacts
from rtagent.virt.libvirt.domain import parse_domain
from tests.support.claims import domain_document, layout, metadata, pinned_parts, with_orphans
from tests.support.hosts import DEDICATED, NOON, PINNING, TOPOLOGY, call, host, uid

ONLINE = TOPOLOGY.cpus
CPUS = st.lists(st.integers(0, 7), min_size=1, max_size=3)
SETS = st.frozensets(st.integers(0, 9), max_size=8)


def cpuset(cpus: frozenset[int]) -> str:
    return ",".join(map(str, sorted(cpus)))


@st.composite
def parts(draw: st.DrawFn) -> tuple[int, tuple[str, ...]]:
    """The number of vCPUs, and elements of a domain document."""
    kind = draw(st.sampled_from(("plain", "shared", "pinned", "odd")))
    named = (metadata(vcpus=draw(st.integers(1, 4)), volume=True, swap_mb=0),)
    more = draw(st.sampled_from(((), named)))
    if kind == "plain":
        return draw(st.integers(1, 4)), more
    if kind == "shared":
        cpus = draw(SETS.filter(bool))
        return 2, (f"<vcpu cpuset='{cpuset(cpus)}'>2</vcpu>", *more)
    if kind == "pinned":
        cpus = draw(CPUS)
        cell, pages = draw(st.integers(0, 1)), draw(st.sampled_from((0, 2048)))
        return len(cpus), (pinned_parts(cell, cpus, 256, pages), *more)
    pins = "".join(
        f"<vcpupin vcpu='{vcpu}' cpuset='{cpuset(cpus)}'/>"
        for vcpu, cpus in enumerate(draw(st.lists(SETS, max_size=3)))
        if cpus
    )
    emulator = draw(SETS)
    if emulator:
        pins += f"<emulatorpin cpuset='{cpuset(emulator)}'/>"
    numa = draw(
        st.sampled_from(
            (
                "",
                "<numatune><memory nodeset='0'/></numatune>",
                "<numatune><memory nodeset='0-1'/></numatune>",
                "<cpu><numa><cell id='0' cpus='0' memory='128' unit='MiB'/>"
                "<cell id='1' cpus='1-2' memory='128' unit='MiB'/></numa></cpu>",
            )
        )
    )
    return 3, (f"<cputune>{pins}</cputune>", numa, *more)


@given(st.lists(parts(), min_size=1, max_size=8))
def test_random_domains(drawn):
    documents = {
        uid(number): domain_document(uid(number), vcpus, 256, *elements)
        for number, (vcpus, elements) in enumerate(drawn, start=50)
    }
    layouts = {uuid: layout(document, uuid, ONLINE) for uuid, document in documents.items()}
    before = state = with_orphans(host(numa=PINNING), *layouts.values())
    for uuid, found in layouts.items():
        try:
            granted = adopt(state, call("adopt_domain"), NOON, uuid, found, None)
        except DomainNotAdoptable as error:
            assert error.message and "\n" not in error.message
            continue
        state = state.fold(granted.change)
        claim = granted.claims[0]
        assignment = claim.numa_topology or Assignment()
        floating = (assignment.shared_pcpus, *(cell.shared_pcpus for cell in assignment.cells))
        assert not DEDICATED & frozenset().union(*floating)
        made = parse_domain(guest.apply(documents[uuid], claim)).confinement
        assert made.occupancy(HostFacts(online=ONLINE)) == found.usage.occupancy
    state.check()
    assert not [*drifts(state), *absent(state)]
    left = {each.domain_uuid for each in orphans(state)}
    assert left | {claim.owner_id for claim in state.claims.values()} == set(documents)
    assert state.usage.memory_mb == before.usage.memory_mb
    assert state.usage.numa.memory_mb == before.usage.numa.memory_mb
    assert state.usage.numa.pages == before.usage.numa.pages
    assignments = (claim.numa_topology or Assignment() for claim in state.claims.values())
    reserved = sum(len(cell.cpuset_reserved) for each in assignments for cell in each.cells)
    adopted = sum(layouts[claim.owner_id].usage.vcpus for claim in state.claims.values())
    unpinned = sum(usage.usage(PINNING).vcpus for usage in orphans(state))
    assert state.usage.vcpus + state.usage.pcpus - reserved == adopted + unpinned
    dedicated = {int(name) for kind, name in state.units if kind == PCPU}
    assert all(state.usage.numa.pinned[cpu] <= before.usage.numa.pinned[cpu] for cpu in dedicated)
