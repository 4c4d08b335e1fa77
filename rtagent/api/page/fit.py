"""The page "would it fit?": the placement of a claim that is not made, or why it is refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from markupsafe import Markup
from msgspec.structs import replace

from rtagent.api.page import fit_form
from rtagent.api.page.fit_form import ALIAS, CHOICES, OWNER, QUANTITIES, FitForm
from rtagent.api.page.host_map import host_map
from rtagent.api.page.owners import Owner, OwnerRows
from rtagent.api.page.rendering import Content
from rtagent.errors import RtAgentError
from rtagent.model.base import Value
from rtagent.model.claim import Claim
from rtagent.model.cpuset import BadCpuSet, format_cpu_spec, parse_cpu_spec
from rtagent.model.decision import Decision, Granted, Reason
from rtagent.model.device import RootPorts
from rtagent.model.node_state import NodeState
from rtagent.pci.pmem import with_namespaces

_CELLS = re.compile(r"\bcells? (?P<cells>[0-9][0-9,-]*)")

TestClaim = Callable[[Mapping[str, Any]], Decision]


class RefusalRow(Value, frozen=True, kw_only=True):
    """One reason. :ivar cells: host cells that it is about; empty: the whole host.
    :ivar share: the part of what is requested that is available, in percent.
    """

    resource: str
    requested: str
    available: str
    where: str
    message: str
    option: str
    cells: tuple[int, ...]
    share: float


class LitRows:
    """The rows of the owners, of which one stands out."""

    def __init__(self, rows: OwnerRows, owner_id: str) -> None:
        self._rows, self._owner_id = rows, owner_id

    def of(self, state: NodeState) -> tuple[Mapping[str, Owner], Sequence[Markup]]:
        """Return what `OwnerRows.of` does."""
        found, rows = self._rows.of(state, self._owner_id)
        if self._owner_id not in found:
            return found, rows
        owner = found[self._owner_id]
        lit = replace(owner, badge=replace(owner.badge, style=f"{owner.badge.style} would-be"))
        return {**found, self._owner_id: lit}, rows


def fit_page(
    state: NodeState,
    rows: OwnerRows,
    query: Mapping[str, str],
    test_claim: TestClaim,
    ports: RootPorts,
) -> Content:
    """Return the form, with the answer if something was asked.

    :param ports: the root ports of the host's devices.
    """
    form = fit_form.parse(query)
    answer: Mapping[str, Any] = {"verdict": "", "reasons": (), "claim": None}
    shown = None
    if form.request is not None:
        try:
            decision = test_claim(form.request)
        except RtAgentError as error:
            form = replace(form, errors=fit_form.mistakes(error))
        else:
            answer, shown = _answered(decision, state, rows, ports)
    values = _form_values(form, state)
    if shown is not None:
        values |= shown.values
    return Content(template="fit.html", values={**values, **answer})


def _answered(
    decision: Decision, state: NodeState, rows: OwnerRows, ports: RootPorts
) -> tuple[Mapping[str, Any], Content]:
    """What the answer says, and the map that shows it."""
    if isinstance(decision, Granted):
        after = state.fold(decision.change)
        claim = with_namespaces(decision.claims[0], after)
        answer: dict[str, Any] = {"verdict": "fits", "claim": _placement(claim), "reasons": ()}
        return answer, host_map(after, LitRows(rows, OWNER), ports=ports)
    reasons = [_row(each) for each in decision.reasons]
    notes: dict[int, list[str]] = {}
    for each in reasons:
        for cell in each.cells:
            notes.setdefault(cell, []).append(each.message)
    answer = {"verdict": "refused", "claim": None, "reasons": reasons}
    return answer, host_map(state, rows, notes, ports)


def _form_values(form: FitForm, state: NodeState) -> dict[str, Any]:
    names = fit_form.aliases(state)
    alias = form.values["alias"]
    return {
        "form": form.values,
        "errors": form.errors,
        "quantities": QUANTITIES,
        "choices": CHOICES,
        "alias_key": ALIAS,
        "aliases": names if not alias or alias in names else (*names, alias),
    }


def _row(reason: Reason) -> RefusalRow:
    share = 100 * max(0, reason.available) / reason.requested if reason.requested else 0.0
    return RefusalRow(
        resource=reason.resource,
        requested=f"{reason.requested} {reason.unit}",
        available=f"{reason.available} {reason.unit}",
        where=reason.where,
        message=str(reason),
        option=reason.option,
        cells=_cells(reason.where),
        share=round(min(100.0, share), 2),
    )


def _cells(where: str) -> tuple[int, ...]:
    """The host cells that a place names."""
    found = _CELLS.search(where)
    if found is None:
        return ()
    try:
        return tuple(sorted(parse_cpu_spec(found["cells"])))
    except BadCpuSet:
        return ()


def _placement(claim: Claim) -> Mapping[str, Any]:
    assignment = claim.numa_topology
    cells = assignment.cells if assignment else ()
    return {
        "vcpus": claim.vcpus,
        "pcpus": claim.pcpus,
        "memory_mb": claim.memory_mb,
        "disk_mb": claim.disk_mb,
        "cells": [
            {
                "guest": number,
                "host": cell.id,
                "memory_mb": cell.memory,
                "pins": [
                    (vcpu, format_cpu_spec(cell.pcpus_of(vcpu))) for vcpu in sorted(cell.vcpus)
                ],
            }
            for number, cell in enumerate(cells)
        ],
        "devices": _names(each.address for each in claim.pci),
        "resources": _names(f"{each.resource_class} {each.identifier}" for each in claim.resources),
    }


def _names(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(found)
