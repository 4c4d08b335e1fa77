"""States for the read API and the pages of a fleet, made by the rules of the core."""

import json
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Any, Self

from lxml import html
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from rtagent import claims
from rtagent.api.address import TcpAddress
from rtagent.api.page.host_map import WORDS
from rtagent.api.page.rendering import megabytes, size
from rtagent.api.routes import NO_AUDIT, Sources, answer
from rtagent.api.scheduler_routes import SchedulerSources
from rtagent.api.server import ReadAPI
from rtagent.errors import RtAgentError
from rtagent.model.health import Check, Status
from rtagent.model.host_report import InstanceInfo, ServiceState
from rtagent.model.node import Node
from rtagent.model.node_state import NodeState
from rtagent.model.policy import Policy
from rtagent.model.request import Flavor
from rtagent.model.topology import Topology
from rtagent.scheduler.fleet_counts import FleetCounts
from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.ports import PlacementPort
from rtagent.scheduler.select import Scheduler
from rtagent.service.explanations import Explanations
from tests.support.device_states import after
from tests.support.host_states import SEEN, aggregate, fleet_node, host_state
from tests.support.hosts import call, domain_usage, observed, request, uid
from tests.support.move_host import Host, facts
from tests.support.scheduling import HostsInMemory, scheduler

NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
NODE = Node(
    uuid="11111111-0000-4000-8000-000000000001", host="cloud-7", hypervisor_hostname="kvm-7.example"
)
TOPOLOGY = Topology(
    cpus=frozenset(range(8)), memory_mb=16384, disk_mb=102400, hypervisor_type="QEMU"
)
POLICY = Policy(
    reserved_cpus=1, reserved_memory_mb=512, reserved_disk_mb=1024, cpu_allocation_ratio=Decimal(4)
)


def uuid(number: int) -> str:
    """A uuid that ends with the number."""
    return f"00000000-0000-4000-8000-{number:012d}"


def empty() -> NodeState:
    """A host without claims and domains."""
    return NodeState(node=NODE, policy=POLICY, topology=TOPOLOGY, epoch=1)


def claimed(state: NodeState, number: int, *, active: bool = False) -> NodeState:
    """Add a claim (uuid `number`, for instance 100 + `number`): 2 vCPUs, 1024 MB, 10 GB."""
    facts, owner = {"display_name": f"vm-{number}"}, uuid(100 + number)
    asked, now = call(operation_id=uuid(number)), NOW + timedelta(seconds=number)
    build = request(2, 1024, 10, owner=owner, instance=facts)
    state, _ = after(state, claims.instance_claim(state, asked, now, build))
    if active:
        state, _ = after(state, claims.activate_claim(state, asked, now, uuid(number)))
    return state


def with_domain(state: NodeState, number: int, *, vcpus: int, memory_mb: int) -> NodeState:
    """Add a domain that differs from its claim or has none."""
    usage = domain_usage(uuid(number), vcpus, memory_mb)
    return observed(state, replace(usage, name=f"instance-{number}"))


def populated() -> NodeState:
    """Claims 1 (active, with drift) and 2 (building), and an orphan."""
    state = claimed(claimed(empty(), 1, active=True), 2)
    state = with_domain(state, 101, vcpus=4, memory_mb=1024)
    return with_domain(state, 900, vcpus=3, memory_mb=2048)


def moved() -> Host:
    """A host with a confirmed move of a guest from it, and a claim for a move of another to it."""
    here = Host.named(1)
    here.build()
    gone = facts("migration", source_compute="h1", dest_compute="h2")
    here.start_move_out(gone)
    here.drop_at_source(gone)
    here.claim_move(facts("live-migration", source_compute="h3"), owner=uid(78))
    return here


def sources(
    state: NodeState | None = None,
    *,
    stale: bool = False,
    checks: tuple[Check, ...] = (Check(part="store", status=Status.PASS, time=NOW),),
    creation_error: RtAgentError | None = None,
) -> Sources:
    """Sources that always show the same."""
    shown = populated() if state is None else state
    return Sources(
        snapshot=lambda: shown,
        stale=lambda: stale,
        checks=lambda: checks,
        creation_error=lambda: creation_error,
        registry=CollectorRegistry(),
        allocations=lambda: NO_AUDIT,
    )


def document(state: NodeState, path: str) -> dict[str, Any]:
    return json.loads(answer(sources(state), path).body)


def text(element: html.HtmlElement) -> str:
    """The words in an element, with single blanks."""
    return " ".join(" ".join(element.itertext()).split())


def page(state: NodeState) -> html.HtmlElement:
    reply = answer(sources(state), "/")
    assert reply.status == 200
    return html.fromstring(reply.body.decode())


def rows(tree: html.HtmlElement) -> dict[str, str]:
    """The uuid of each owner by its code."""
    return {
        each.get("data-owner"): each.get("data-uuid") for each in tree.xpath("//tr[@data-uuid]")
    }


def owner_of(tree: html.HtmlElement, identifier: str) -> str | None:
    (found,) = tree.xpath("//*[@id=$id]", id=identifier)
    code = found.get("data-owner")
    assert (code is None) == (found.get("href") is None)
    return None if code is None else rows(tree)[code]


def check_map(state: NodeState) -> None:
    """Check that the map shows what the documents of the state show."""
    tree = page(state)
    (node,) = document(state, "/nodes")["nodes"]
    for name, inventory in node["inventories"].items() if state.topology else ():
        in_words = megabytes if inventory["unit"] == "MB" else str
        for (bar,) in filter(None, [tree.xpath("//*[@id=$id]", id=f"capacity-{name}")]):
            assert f"{in_words(inventory['free'])} free" in text(bar)
            assert f"{in_words(inventory['used'])} of" in text(bar)
    (numa,) = document(state, "/numa")["numa"]
    for cell in numa["cells"]:
        (section,) = tree.xpath("//section[@id=$id]", id=f"cell-{cell['id']}")
        assert [core.xpath(".//a/@id") for core in section.find_class("core")] == [
            [f"cpu-{cpu['id']}" for cpu in core] for core in cell["cores"]
        ]
        pools = [pool for pool in cell["pages"] if pool["total"] or pool["used"]]
        for line, pool in zip(section.find_class("pool"), pools, strict=True):
            free, total = (size(pool[key] * pool["size_kb"]) for key in ("free", "total"))
            assert f"{free} free of {total}" in text(line)
            end = 0.0
            for part in line.xpath(".//rect[not(contains(@class, 'stranded'))]"):
                assert abs(float(part.get("x").rstrip("%")) - end) < 0.1, "there are no gaps"
                end += float(part.get("width").rstrip("%"))
            taken = pool["used"] + pool["reserved"]
            assert taken > pool["total"] or abs(end - 100 * taken / pool["total"]) < 0.1
    cpus = [cpu for cell in numa["cells"] for core in cell["cores"] for cpu in core]
    assert len(tree.xpath("//a[contains(@class, 'cpu ')]")) == len(cpus)
    for cpu in cpus:
        assert owner_of(tree, f"cpu-{cpu['id']}") == cpu["owner_id"]
        (found,) = tree.xpath("//*[@id=$id]", id=f"cpu-{cpu['id']}")
        assert found.get("class").split()[1] == cpu["use"]
        for words in (WORDS[cpu["use"]], cpu["name"] or "", *cpu["intruders"]):
            assert words in found.get("aria-label")
    for device in document(state, "/pci")["pci"]:
        assert owner_of(tree, f"dev-{device['address']}") == device["owner_id"]
        (found,) = tree.xpath("//*[@id=$id]", id=f"dev-{device['address']}")
        for words in (device["status"], device["reason"], *device["others"]):
            assert words in found.get("aria-label")
    for number, resource in enumerate(document(state, "/resources")["resources"]):
        assert owner_of(tree, f"res-{number}") == resource["owner_id"]
    claimed = {each["owner_id"] for each in document(state, "/claims")["claims"]}
    orphans = {each["domain_uuid"] for each in document(state, "/orphans")["orphans"]}
    assert set(rows(tree).values()) == claimed | orphans


DOWN_TIME = 60.0
FILTERS = ("ComputeFilter", "AggregateInstanceExtraSpecsFilter", "NUMATopologyFilter")

_node = cache(fleet_node)


@cache
def _instances(guests: int) -> tuple[InstanceInfo, ...]:
    """The guests of a host, of which the first one of a full host differs from its claim."""
    state = _node(guests)
    infos = [InstanceInfo(uuid=each, claims=state.claims_of(each)) for each in state.owners]
    if guests == 32:
        usage = replace(domain_usage(uid(901), 3, 64), name="left-behind")
        infos.append(InstanceInfo(uuid=uid(901), domain_usage=usage))
    return tuple(infos)


def simulated(number: int, **fields: Any) -> HostState:
    """Make one host of the fleet: its guests, its status and its zone depend on the number."""
    guests = (number * 7) % 33
    service = ServiceState(
        disabled=number % 50 == 3,
        disabled_reason="a faulty fan" if number % 50 == 3 else None,
        forced_down=number % 50 == 11,
        draining="firmware" if number % 50 == 17 else None,
    )
    closed = number % 50 == 29
    zone = f"zone-{number % 3}"
    return host_state(
        f"compute-{number:04}",
        _node(guests),
        instances=_instances(guests),
        aggregates=(aggregate(zone, availability_zone=zone),),
        service=service,
        **{
            "differing": int(guests == 32),
            "up": not closed,
            "why_not": "the hypervisor does not answer" if closed else "",
            "seen": SEEN - (DOWN_TIME + 5 if number % 50 == 41 else number % 9),
            **fields,
        },
    )


class PageFleet:
    """The hosts of a scheduler, and its read API. :ivar states: by uuid.

    :ivar turn: seconds for which capacity is counted whenever it is asked for.
    """

    turn = 60.0

    def __init__(
        self,
        *states: HostState,
        listed: Sequence[Flavor] = (),
        placement: PlacementPort | None = None,
    ) -> None:
        self.hosts = HostsInMemory(states)
        self.scheduler: Scheduler = scheduler(self.hosts, filters=FILTERS, placement=placement)
        self.counts = FleetCounts(lambda: self.scheduler.parts, lambda: listed, self._count)
        self._counting = threading.Lock()
        self.sources = SchedulerSources(
            hosts=self.hosts.get_all_host_states,
            now=lambda: SEEN,
            down_time=lambda: DOWN_TIME,
            decisions=self.scheduler.decisions,
            decision=self.scheduler.decision,
            aggregates=tuple,
            complete=lambda: True,
            checks=tuple,
            error=lambda: None,
            counts=self.counts,
            registry=CollectorRegistry(),
            hung=tuple,
            name="scheduler-1",
            time=lambda: datetime.now(UTC),
            explain=Explanations(self.scheduler).explain,
        )

    @classmethod
    def of(cls, number: int) -> Self:
        """Make a fleet of so many hosts."""
        return cls(*map(simulated, range(number)))

    def _count(self) -> None:
        with self._counting:
            self.counts.count(self.turn)

    def __enter__(self) -> Self:
        self.api = ReadAPI(TcpAddress(0), self.sources, patience=60)
        self.api.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.api.stop()

    @property
    def url(self) -> str:
        return f"http://{self.api.address}/"

    def document(self, path: str) -> dict[str, Any]:
        """Return a document of the read API."""
        return dict(json.loads(self.sources.answer(path).body))

    def state(self, number: int) -> NodeState:
        """Return the replica of a host."""
        return self.hosts.get_all_host_states()[number].replica
