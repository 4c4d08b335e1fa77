"""Reports as JSON: both ways, and with every field wrong in turn."""

import base64
import json
import tracemalloc
import zlib
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from rtagent.errors import InvalidRequest
from rtagent.model.host_report import (
    MAX_CELLS,
    MAX_CPUS,
    MAX_DEVICES,
    MAX_INSTANCES,
    MAX_PAGE_SIZES,
    CellUsage,
    HostDescription,
    HostReport,
    HostUsage,
    InstanceInfo,
    ResourcePool,
    ServiceState,
    UsedQuantity,
)
from rtagent.model.metric import Metric
from rtagent.scheduler.report_documents import (
    MAX_UNPACKED,
    MAX_VALUES,
    instances_from,
    instances_text,
    report_document,
    report_from,
)
from tests.support import stored_values as stored
from tests.support.numa_hosts import cell

DEVICES = (stored.DEVICE, stored.device(2))
PARTS = {"devices": DEVICES, "resource_inventories": stored.INVENTORIES}
DESCRIPTION = HostDescription(topology=stored.TOPOLOGY, policy=stored.POLICY, **PARTS)

REPORT = HostReport(
    node=stored.NODE,
    epoch=3,
    revision=17,
    digest="d" * 64,
    description=DESCRIPTION,
    usage=HostUsage(
        vcpus=3,
        pcpus=2,
        memory_mb=4096,
        disk_mb=2**40,
        pinned={1: 1, 3: 2},
        kept={2: 1},
        cells=(CellUsage(id=0, vcpus=1, memory_mb=1024, pages={2048: 512}),),
        quantities=(UsedQuantity(suffix="net", resource_class="CUSTOM_A", quantity=4),),
        devices=("0000:81:00.1", "0000:81:00.1"),
        mdev_parents=("0000:82:00.0",),
        resources=("ns_0",),
        former_pools=(ResourcePool(provider="", resource_class="CUSTOM_B"),),
    ),
    service=ServiceState(
        disabled=True, disabled_reason=stored.ODD, forced_down=True, draining="new disks"
    ),
    up=False,
    why_not="it starts",
    counters={"num_instances": 2, "num_task_None": 2},
    failed_builds=1,
    disk_available_least=-3,
    metrics=(Metric(name="cpu.percent", value=0.5, timestamp=datetime(2030, 1, 1, tzinfo=UTC)),),
    claims=(stored.uuid(7),),
    instances_digest="e" * 64,
    instances_revision=5,
    number=3,
    page_url="https://compute1.example/",
    ended=(stored.uuid(8),),
    unknown=(stored.domain_usage(9),),
)
INSTANCES = (
    InstanceInfo(uuid=stored.uuid(1), here=False, claims=(stored.odd_claim(1), stored.claim(2))),
    InstanceInfo(uuid=stored.uuid(9), domain_usage=stored.domain_usage(9)),
)


ONES = dict.fromkeys(("total", "reserved", "min_unit", "max_unit", "step_size"), 1)
ADDITIONAL = {"suffix": "", "resource_class": "CUSTOM_A", "allocation_ratio": "1", **ONES}


def sent_pool(identifiers=()):
    return {"provider": "", "resource_class": "VGPU", "identifiers": list(identifiers)}


def sent(document):
    """A document as it arrives."""
    return json.loads(json.dumps(document))


def packed(document):
    return base64.b64encode(zlib.compress(json.dumps(document).encode())).decode()


def unpacked(text):
    return json.loads(zlib.decompress(base64.b64decode(text)))


def test_reports_and_instances_arrive_as_they_were():
    assert report_from(sent(report_document(REPORT))) == REPORT
    assert instances_from("update_instance_info", instances_text(INSTANCES)) == INSTANCES


#: The fields whose values may be anything.
FREE = ("cpu_info",)


def places(document, path=()):
    """The path of every value of a document, except those of free fields."""
    items = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in items:
        yield (*path, key)
        if isinstance(value, dict | list) and key not in FREE:
            yield from places(value, (*path, key))


def broken(document, path, value):
    """A copy of a document with another value at one place."""
    copy = json.loads(json.dumps(document))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return copy


def wrong(document, path):
    """A value that no field of the type at the path can have."""
    for key in path:
        document = document[key]
    if document is None:
        return 1e300
    return [None] if isinstance(document, dict) else {"?": None}


@pytest.mark.parametrize("part", ["report", "description", "instances"])
def test_each_wrong_field_is_refused_at_its_path(part):
    whole = sent(report_document(REPORT))
    document, read, at = {
        "report": (whole, report_from, "$.report"),
        "description": (
            unpacked(whole["description"]),
            lambda bad: report_from({**whole, "description": packed(bad)}),
            "$.report.description",
        ),
        "instances": (
            unpacked(instances_text(INSTANCES)),
            lambda bad: instances_from("m", packed(bad)),
            "$.instances",
        ),
    }[part]
    for path in places(document):
        with pytest.raises(InvalidRequest) as refused:
            read(broken(document, path, wrong(document, path)))
        error = refused.value.kwargs["errors"][0]
        named = [key for key in path if isinstance(key, str) and key.isidentifier()]
        assert error["path"].startswith(at), (path, error)
        assert not named or any(key in error["path"] for key in named[-2:]), (path, error)


@pytest.mark.parametrize("where", [(), ("usage",)])
def test_a_missing_or_an_unknown_field_is_refused(where):
    document = sent(report_document(REPORT))
    fields = document["usage"] if where else document
    path = ".".join(("$.report", *where))
    for name in fields.keys() - {"ended"}:  # without it, the report is of release 0.2.0
        left = {key: value for key, value in fields.items() if key != name}
        with pytest.raises(InvalidRequest) as refused:
            report_from({**document, "usage": left} if where else left)
        error = {"path": f"{path}.{name}", "message": "is required"}
        assert refused.value.kwargs["errors"] == [error]
    more = {**fields, "more": 1}
    with pytest.raises(InvalidRequest, match="more"):
        report_from({**document, "usage": more} if where else more)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("policy", "cpu_allocation_ratio"), "NaN"),
        (("policy", "ram_allocation_ratio"), "0"),
        (("policy", "placement", "additional"), [{**ADDITIONAL, "step_size": 0}]),
        (("topology", "cells", 0, "pages"), {"0": 5}),
        (("topology", "memory_mb"), 2**64),
        (("topology", "hypervisor_type"), "\0"),
    ],
)
def test_a_value_without_meaning_is_refused(path, value):
    whole = sent(report_document(REPORT))
    bad = packed(broken(unpacked(whole["description"]), path, value))
    with pytest.raises(InvalidRequest) as refused:
        report_from({**whole, "description": bad})
    assert path[-1] in refused.value.kwargs["errors"][0]["path"]


@pytest.mark.parametrize(
    "document",
    [
        {"node": {**sent(report_document(REPORT))["node"], "uuid": "n"}},
        {"counters": {"num_instances": 2**70}},
        {"metrics": [{"name": "m", "value": float("nan"), "timestamp": "2030-01-01T00:00:00Z"}]},
        {"why_not": "\ud800"},
        {"page_url": "x" * 256},
        {"usage": None},
        {"usage": {**sent(report_document(REPORT))["usage"], "pinned": {"x": 1}}},
    ],
)
def test_a_value_out_of_bounds_is_refused(document):
    with pytest.raises(InvalidRequest) as refused:
        report_from({**sent(report_document(REPORT)), **document})
    assert next(iter(document)) in refused.value.kwargs["errors"][0]["path"]


@pytest.mark.parametrize(
    "text",
    [
        None,
        "é",
        base64.b64encode(b"no zlib").decode(),
        packed([])[:-4],
        *(base64.b64encode(zlib.compress(text)).decode() for text in (b"{", b"[" * 100_000)),
        packed({}),
    ],
)
def test_a_text_that_is_not_packed_is_refused(text):
    with pytest.raises(InvalidRequest) as refused:
        instances_from("sync_instance_info", text)
    assert refused.value.kwargs["method"] == "sync_instance_info"
    assert refused.value.kwargs["errors"][0]["path"].startswith("$.instances")


def test_a_report_of_release_0_2_0_is_read():
    document = sent(report_document(REPORT))
    del document["ended"]
    service = document["service"]
    later = {name: document.pop(name) for name in ("number", "page_url", "unknown")}
    document["node"] |= {**later, "service": service}
    document["service"] = {"disabled": True, "disabled_reason": service["draining"]}
    assert report_from(document) == replace(REPORT, ended=())


def cells(number, **fields):
    return [{"id": at, "cpus": [at], "memory_mb": 1, **fields} for at in range(number)]


def devices(number):
    hardware = {"vendor_id": "8086", "product_id": "1520"}
    return [{"device": {"address": f"{at:04x}:00:00.0", **hardware}} for at in range(number)]


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("topology.cpus", list(range(MAX_CPUS + 1)), "8193 host CPUs"),
        ("topology.cells", cells(MAX_CELLS + 1), "257 NUMA cells"),
        ("topology.cells", cells(9, cpus=list(range(1000))), "9000 host CPUs in NUMA cells"),
        ("topology.cells", cells(9, offline=list(range(1000))), "9009 host CPUs in NUMA cells"),
        ("topology.cells", cells(1, siblings=20_000 * [[]]), "20000 cores and threads"),
        ("topology.cells", cells(2, pages={str(size): 1 for size in range(1, 18)}), "17 sizes"),
        ("topology.cpu_info", {"features": ["x" * 60_000] * 2}, "bytes"),
        ("devices", devices(MAX_DEVICES + 1), "8193 PCI devices"),
        ("resource_inventories", 1025 * [sent_pool()], "1025 pools"),
        ("resource_inventories", [sent_pool(str(n) for n in range(20_000))], "20000 assigned"),
        ("topology.cpu_info", {"x": 300_000 * [[]]}, f"at most {MAX_VALUES} values"),
        ("topology.cpu_info", {"x": "x" * MAX_UNPACKED}, f"at most {MAX_UNPACKED} bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_host_beyond_a_bound_is_refused_with_its_number(field, value, said):
    whole = sent(report_document(REPORT))
    document = broken(unpacked(whole["description"]), field.split("."), value)
    with pytest.raises(InvalidRequest, match=said) as refused:
        report_from({**whole, "description": packed(document)})
    path = refused.value.kwargs["errors"][0]["path"]
    assert path in (f"$.report.description.{field}", "$.report.description")


def test_a_host_as_large_as_its_bounds_is_read():
    size = MAX_CPUS // MAX_CELLS
    fields = {"distances": dict.fromkeys(range(MAX_CELLS), 255)}
    fields["pages"] = dict.fromkeys(range(1, MAX_PAGE_SIZES + 1), 2**22)
    numbers = range(MAX_CELLS)
    cells = [replace(cell(at, size // 2, memory_mb=2**24), **fields) for at in numbers]
    topology = replace(stored.TOPOLOGY, cpus=frozenset(range(MAX_CPUS)), cells=tuple(cells))
    addresses = (f"{at:04x}:00:00.0" for at in range(MAX_DEVICES))
    known = stored.DEVICE
    devices = [replace(known, device=replace(known.device, address=each)) for each in addresses]
    largest = replace(DESCRIPTION, topology=topology, devices=tuple(devices))
    report = replace(REPORT, description=largest)
    assert report_from(report_document(report)) == report


def test_more_instances_than_a_host_has_are_refused():
    infos = [InstanceInfo(uuid=stored.uuid(at)) for at in range(MAX_INSTANCES + 1)]
    assert len(instances_from("sync_instance_info", instances_text(infos[1:]))) == MAX_INSTANCES
    with pytest.raises(InvalidRequest, match=f"has {len(infos)} instances"):
        instances_from("sync_instance_info", instances_text(infos))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("counters", {str(at): 1 for at in range(20_000)}),
        ("metrics", 2000 * sent(report_document(REPORT))["metrics"]),
        ("claims", 20_000 * [stored.uuid(7)]),
        ("usage.pinned", {str(at): 1 for at in range(MAX_CPUS + 1)}),
        ("usage.cells", (MAX_CELLS + 1) * [{"id": 0}]),
        ("usage.devices", 40_000 * [""]),
        ("usage.quantities", 6000 * [{"suffix": "", "resource_class": "A", "quantity": 1}]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_report_has_beside_its_description_is_bounded(field, value):
    document = broken(sent(report_document(REPORT)), field.split("."), value)
    with pytest.raises(InvalidRequest, match=field.split(".")[-1]):
        report_from(document)


def test_large_messages_at_the_same_time_need_the_memory_of_one():
    """They unpack to 32 MiB of lists, or to as much as may be: 400 or 16 MB for each."""
    bomb = base64.b64encode(zlib.compress(b"[" + b"[]," * 11_000_000 + b"[]]")).decode()
    allowed = packed("x" * (MAX_UNPACKED - 2))
    tracemalloc.start()
    try:
        with ThreadPoolExecutor(8) as pool:
            for done in [pool.submit(instances_from, "m", text) for text in 4 * [bomb, allowed]]:
                assert isinstance(done.exception(), InvalidRequest)
        assert tracemalloc.get_traced_memory()[1] < 4 * MAX_UNPACKED
    finally:
        tracemalloc.stop()
