"""The page of one claim: all of it, its history, and its guest compared with the domain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from rtagent.api.page import quantities
from rtagent.api.page.claim_table import Problems, row
from rtagent.api.page.histories import history_rows
from rtagent.api.page.queries import PageQuery
from rtagent.api.page.rendering import Content
from rtagent.api.page.times import moment
from rtagent.errors import ClaimNotFound, Unavailable
from rtagent.model.assignment import Assignment
from rtagent.model.base import Value
from rtagent.model.claim import Claim
from rtagent.model.claim_event import HistoryPage
from rtagent.model.cpuset import format_cpu_spec
from rtagent.model.guest_comparison import GuestComparison, Mark
from rtagent.model.node_state import NodeState
from rtagent.pci.pmem import with_namespaces

PATH = "/page/claims"
NAMES = frozenset({"before"})

#: Characters of a domain's document that are shown.
MAX_DOCUMENT = 200_000
#: The sign and the words of a line of the comparison, for people who see no colours.
MARKS: Mapping[Mark, tuple[str, str]] = {
    Mark.SAME: ("", ""),
    Mark.DIFFERENT: ("≠", "differs"),
    Mark.ONLY_CLAIM: ("<", "only the claim has it"),
    Mark.ONLY_DOMAIN: (">", "only the domain has it"),
}


class CellRow(Value, frozen=True, kw_only=True):
    """One cell of the guest. :ivar pins: vCPU and host CPUs of each vCPU."""

    guest: int
    host: int
    memory: str
    pages: str
    pins: tuple[tuple[int, str], ...]
    reserved: str
    kept: str


def claim_page(
    state: NodeState,
    uuid: str,
    query: Mapping[str, str],
    history: HistoryPage | Unavailable,
    comparison: GuestComparison | None,
    now: datetime,
) -> Content:
    """Return the page of a claim, or what is recorded of a claim that has ended.

    :param history: or why it cannot be read now.
    :param comparison: None: the claim has ended.
    :raises ClaimNotFound: there is neither the claim nor a record of it.
    """
    path = f"{PATH}/{uuid}"
    asked = PageQuery(path, query, NAMES)
    claim = state.claims.get(uuid)
    page = HistoryPage() if isinstance(history, Unavailable) else history
    if claim is None and not page.events:
        raise history if isinstance(history, Unavailable) else ClaimNotFound(claim_uuid=uuid)
    values: dict[str, Any] = {
        "uuid": uuid,
        "claim": None,
        "history": history_rows(page.events, now),
        "history_problem": history.message if isinstance(history, Unavailable) else "",
        "older": asked.link(before=page.older) if page.older else "",
        "newest": path if asked.number("before") else "",
        "comparison": None,
    }
    if claim is not None and comparison is not None:
        values |= _live(with_namespaces(claim, state), state, now)
        values["comparison"] = _compared(comparison, now)
    return Content(template="claim.html", values=values)


def _live(claim: Claim, state: NodeState, now: datetime) -> dict[str, Any]:
    problems = Problems(state)
    assignment = claim.numa_topology or Assignment()
    return {
        "claim": row(claim, problems, now),
        "drifts": problems.drifts_of(claim),
        "facts": [(label, value) for label, value in _facts(claim) if value],
        "times": [
            (label, moment(at, now))
            for label, at in (
                ("Created", claim.created_at),
                ("Changed", claim.updated_at),
                ("Lease ends", claim.expires_at),
            )
            if at is not None
        ],
        "cells": [_cell(number, assignment) for number in range(len(assignment.cells))],
        "shared": format_cpu_spec(assignment.shared_pcpus),
        "emulator": format_cpu_spec(assignment.emulator_pcpus),
        "devices": claim.pci,
        "resources": claim.resources,
        "quantities": claim.quantities,
        "flavor": _flavor(claim),
        "extra_specs": sorted(claim.flavor.extra_specs.items()),
        "image": sorted(claim.image.properties.items()),
        "allocations": sorted((claim.allocations or {}).items()),
    }


def _facts(claim: Claim) -> Iterator[tuple[str, str | None]]:
    facts, limits = claim.instance, claim.limits
    yield "Instance", claim.owner_id
    yield "Project", facts.project_id
    yield "User", facts.user_id
    yield (
        "State of the instance",
        " / ".join(each for each in (facts.vm_state, facts.task_state) if each),
    )
    yield "Operating system", facts.os_type
    yield "Root disk", "a volume" if facts.is_volume_backed else None
    yield "Move", claim.migration_uuid
    yield "Tag", claim.tag
    yield "Memory encryption", claim.mem_encryption.model if claim.mem_encryption else None
    given = {"vcpu": limits.vcpu, "memory_mb": limits.memory_mb, "disk_gb": limits.disk_gb}
    yield "Limits", ", ".join(f"{name} {value}" for name, value in given.items() if value)
    yield "Revision", str(claim.revision)


def _flavor(claim: Claim) -> list[tuple[str, str]]:
    flavor = claim.flavor
    rows = (
        ("Name", flavor.name or flavor.flavorid),
        ("vCPUs", str(flavor.vcpus)),
        ("Memory", quantities.megabytes(flavor.memory_mb)),
        ("Root disk", f"{flavor.root_gb} GB" if flavor.root_gb else ""),
        ("Ephemeral disk", f"{flavor.ephemeral_gb} GB" if flavor.ephemeral_gb else ""),
        ("Swap", quantities.megabytes(flavor.swap) if flavor.swap else ""),
    )
    return [(label, value) for label, value in rows if value]


def _cell(number: int, assignment: Assignment) -> CellRow:
    cell = assignment.cells[number]
    pages = f"{cell.pages} \u00d7 {quantities.size(cell.pagesize)}" if cell.pagesize else ""
    return CellRow(
        guest=number,
        host=cell.id,
        memory=quantities.megabytes(cell.memory),
        pages=pages,
        pins=tuple((vcpu, format_cpu_spec(cell.pcpus_of(vcpu))) for vcpu in sorted(cell.vcpus)),
        reserved=format_cpu_spec(cell.cpuset_reserved),
        kept=format_cpu_spec(cell.cpuset_kept),
    )


def _compared(comparison: GuestComparison, now: datetime) -> dict[str, Any]:
    domain = comparison.domain
    lines = [
        {
            "mark": each.mark.value,
            "sign": MARKS[each.mark][0],
            "words": MARKS[each.mark][1],
            "claim": each.claim,
            "domain": each.domain,
        }
        for each in comparison.lines
    ]
    return {
        "lines": lines,
        "differences": comparison.differences,
        "problem": comparison.problem,
        "both": domain is not None and not comparison.problem,
        "read": None if domain is None else moment(domain.at, now),
        "document": "" if domain is None else domain.xml[:MAX_DOCUMENT],
        "cut": domain is not None and len(domain.xml) > MAX_DOCUMENT,
    }
