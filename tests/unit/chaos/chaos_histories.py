"""Hand-made histories of chaos runs: a good one, of which tests change single entries."""

import copy
import itertools
import json
from typing import Any

from tests.chaos.checker.judge import judge
from tests.chaos.checker.run import Run, Violation
from tests.chaos.history import Entry

HOST, NODE, DEVICES = "host-1", "node-1", "devices-1"
#: Claims of the good history: active with units; released; active, by a call without an answer;
#: refused; at the source of a move.
ACTIVE, RELEASED, UNANSWERED, REFUSED, MOVED = "c-1", "c-2", "c-3", "c-4", "c-5"
#: Seconds of a lease.
LEASE = 60


def claim(uuid: str, cpus: tuple[int, ...] = (), **fields: Any) -> dict[str, Any]:
    """Return a claim of owner ``o-N`` with two CPUs. :param cpus: host CPUs, if they are pinned."""
    cell = {
        "id": 0,
        "memory": 512,
        "cpuset": [],
        "cpu_pinning": {str(vcpu): cpu for vcpu, cpu in enumerate(cpus)},
        "cpuset_reserved": [],
        "cpuset_kept": [],
        "pagesize": 2048 if cpus else None,
    }
    return {
        "uuid": uuid,
        "owner_id": uuid.replace("c", "o"),
        "host": HOST,
        "kind": "build",
        "state": "building",
        "vcpus": 0 if cpus else 2,
        "pcpus": len(cpus),
        "memory_mb": 512,
        "disk_mb": 1024,
        "flavor": {"vcpus": 2, "memory_mb": 512, "extra_specs": {}},
        "numa_topology": {"cells": [cell]} if cpus else None,
        "pci": [{"address": "0000:08:00.0"}] if cpus else [],
        "resources": [],
        "migration_uuid": None,
        "suspect": None,
        "created_at": f"2030-01-01T00:00:0{uuid[-1]}Z",
        "updated_at": "2030-01-01T00:00:00+00:00",
        "expires_at": "2030-01-01T00:01:00+00:00",
        "revision": 1,
        **fields,
    }


class Story:
    """Entries of a history; each entry is a second after the one before it.

    :ivar entries: may be changed before `violations`.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._calls = itertools.count(1)

    def add(self, type: str, **fields: Any) -> Entry:
        entry = {"t": float(len(self.entries)), "type": type, **copy.deepcopy(fields)}
        self.entries.append(entry)
        return entry

    def invoke(
        self, method: str, arguments: Any, operation: str | None = None, process: str = "caller-1"
    ) -> int:
        call = next(self._calls)
        fields = {"process": process, "call": call, "host": HOST, "operation_id": operation}
        self.add("invoke", method=method, arguments=arguments, **fields)
        return call

    def call(
        self,
        method: str,
        arguments: Any,
        operation: str | None = None,
        *,
        reply: Any = None,
        error: str = "",
        outcome: str = "",
        process: str = "caller-1",
    ) -> int:
        """Add a call and its end. :param outcome: ``ok``, or ``fail`` if there is an error."""
        call = self.invoke(method, arguments, operation, process)
        if error:
            self.add(outcome or "fail", process=process, call=call, error={"type": error})
        else:
            self.add("ok", process=process, call=call, reply=reply)
        return call

    def build(self, uuid: str, *, document: Any = None, **end: Any) -> int:
        """Add a call that builds a claim."""
        instance = {"instance": {"uuid": uuid.replace("c", "o")}}
        if not end.get("error"):
            end["reply"] = document or claim(uuid)
        return self.call("instance_claim", instance, uuid, **end)

    @property
    def claims(self) -> list[dict[str, Any]]:
        """The claims of the last observation."""
        claims: list[dict[str, Any]] = self.observed("claims")["claims"]
        return claims

    def without(self, uuid: str) -> list[dict[str, Any]]:
        return [claim for claim in self.claims if claim["uuid"] != uuid]

    def list_claims(self, claims: list[dict[str, Any]] | None = None) -> None:
        """Add a call that lists these claims, or those of the last observation."""
        reply: dict[str, Any] = {"revision": 12, "stale": False}
        reply["claims"] = self.claims if claims is None else claims
        self.call("get_claims_for_host", {}, reply=reply)

    def observe(self, what: str, document: Any, host: str = HOST) -> None:
        self.add("observed", what=what, host=host, document=document)

    def wait(self, seconds: float) -> None:
        """Let everything that is added later be later by some seconds."""
        self.entries += [{"t": 0.0, "type": "note"}] * int(seconds)

    def observed(self, what: str) -> Any:
        """Return the document of the last observation."""
        found = [each for each in self.entries if each.get("what") == what]
        return found[-1]["document"]

    def violations(self) -> list[Violation]:
        """Return the violations that the checker finds."""
        entries = [{**entry, "t": float(line)} for line, entry in enumerate(self.entries, 1)]
        return judge(run_of(entries), bound=100)


def run_of(entries: list[Entry]) -> Run:
    """Return the run that a history with these entries records."""
    run = Run()
    for line, entry in enumerate(entries, 1):
        run.add(line, entry)
    return run


def good() -> Story:
    """Return a history without a violation, in which everything is observed at the end."""
    story = Story()
    pinned = claim(ACTIVE, (2, 3), revision=2)
    story.build(ACTIVE, document=pinned)
    story.call(
        "activate_claim", {"claim_uuid": ACTIVE}, "a-1",
        reply={**pinned, "state": "active", "revision": 3, "expires_at": None},
    )  # fmt: skip
    story.build(RELEASED, document=claim(RELEASED, (4, 5), pci=[], revision=4))
    story.call("release_claim", {"claim_uuid": RELEASED}, "r-2", reply=None)
    story.build(UNANSWERED, error="MessagingTimeout", outcome="info")
    story.build(REFUSED, error="ComputeResourcesUnavailable")
    mdev = {"identifier": "mdev-1", "resource_class": "VGPU", "provider": DEVICES}
    moved = claim(MOVED, state="active", expires_at=None, revision=7, resources=[mdev])
    story.build(MOVED, document=moved)
    move = {"instance_uuid": "o-5", "migration": {"uuid": "m-5"}}
    outgoing = {**moved, "state": "outgoing", "migration_uuid": "m-5", "revision": 8}
    story.call("start_move_out", move, "s-5", reply=outgoing)
    story.call("get_node", {}, reply={"revision": 8, "stale": False, "node": {}})
    story.add("fault", name="kill", state="begin", target=HOST, details={})
    story.add("fault", name="kill", state="end", target=HOST, details={})
    _observe(story, [{**pinned, "state": "active"}, claim(UNANSWERED, revision=6), outgoing])
    return story


def _observe(story: Story, claims: list[dict[str, Any]]) -> None:
    story.add("quiet")
    story.observe("claims", {"claims": claims, "revision": 9, "stale": False})
    story.observe("node", {"nodes": [_node()]})
    held = (("PCPU", "2"), ("PCPU", "3"), ("PCI", "0000:08:00.0"))
    units = [{"kind": kind, "unit": unit, "owner_id": "o-1"} for kind, unit in held]
    units.append({"kind": "RESOURCE", "unit": "mdev-1", "owner_id": "o-5"})
    story.observe("units", {"units": units, "claim_events": _history()})
    story.observe("events", {"events": _events()})
    story.observe("domains", [{"uuid": "o-9", "active": True, "vcpus": 1, "memory_mb": 128}])
    story.observe("placement", _placement())
    view = {"host": HOST, "vcpus_used": 7, "free_ram_mb": 13824}
    story.observe("scheduler", {HOST: {"host": view}}, "scheduler-1")
    story.observe("health", {"status": "pass", "checks": {}})


def _node() -> dict[str, Any]:
    def inventory(total: int, used: int) -> dict[str, Any]:
        return {"total": total, "claimable": total, "used": used}

    pools = [{"size_kb": 4, "total": 1, "used": 0, "reserved": 0}]
    pools += [{"size_kb": 2048, "total": 1024, "used": 256, "reserved": 0}]
    return {
        "uuid": NODE,
        "host": HOST,
        "vcpus_used": 7,
        "free_ram_mb": 13824,
        "orphans": 1,
        "drifts": 0,
        "inventories": {
            "VCPU": inventory(8, 5),
            "PCPU": inventory(14, 2),
            "MEMORY_MB": inventory(16384, 1664),
            "DISK_GB": inventory(102400, 3072),
        },
        "numa_topology": {
            "cells": [{"id": 0, "pinned_cpus": [2, 3], "cpu_usage": 0, "mempages": pools}]
        },
    }


def _events() -> list[dict[str, Any]]:
    steps = (
        (ACTIVE, "claim.create", None, "building"),
        (ACTIVE, "claim.activate", "building", "active"),
        (RELEASED, "claim.create", None, "building"),
        (RELEASED, "claim.release", "building", "released"),
        (UNANSWERED, "claim.create", None, "building"),
        (REFUSED, "claim.refuse", None, ""),
        (MOVED, "claim.create", None, "active"),
        (MOVED, "claim.update", "active", "outgoing"),
    )
    return [
        {"id": f"1-{number}", "sequence": number, "event_type": type, "payload": payload}
        for number, (uuid, type, before, after) in enumerate(steps, 1)
        if (payload := _payload(uuid, before, after))
    ]


def _payload(uuid: str, before: str | None, after: str) -> dict[str, Any]:
    its = claim(uuid, (2, 3) if uuid in (ACTIVE, RELEASED) else ())
    fields = ("owner_id", "kind", "vcpus", "pcpus", "memory_mb", "disk_mb")
    payload = {name: its[name] for name in fields}
    return {**payload, "claim_uuid": uuid, "before_state": before, "state": after}


def _placement() -> dict[str, Any]:
    def uses(name: str, number: int) -> dict[str, Any]:
        return {"resources": {name: number, "MEMORY_MB": 512, "DISK_GB": 1}}

    node = _node()["inventories"]
    totals = {name: {"total": each["total"]} for name, each in node.items()}
    totals["DISK_GB"]["total"] = 100
    consumers = {"o-1": uses("PCPU", 2), "o-3": uses("VCPU", 2), "m-5": uses("VCPU", 2)}
    device = {"name": "host-1_pci_0000_48_00_0", "parent": NODE, "inventories": {}}
    devices = {**device, "allocations": {"m-5": {"resources": {"VGPU": 1}}}}
    return {NODE: {"inventories": totals, "allocations": consumers}, DEVICES: devices}


def _history() -> list[dict[str, Any]]:
    steps = (
        (ACTIVE, "create", None, "building"),
        (ACTIVE, "activate", "building", "active"),
        (RELEASED, "create", None, "building"),
        (RELEASED, "release", "building", "released"),
        (UNANSWERED, "create", None, "building"),
        (MOVED, "create", None, "active"),
        (MOVED, "start_move_out", "active", "outgoing"),
    )
    return [
        {
            "id": number,
            "claim_uuid": uuid,
            "action": action,
            "before": before and json.dumps({"state": before, "memory_mb": 512}),
            "after": json.dumps({"state": after, "memory_mb": 512}),
        }
        for number, (uuid, action, before, after) in enumerate(steps, 1)
    ]
