"""The page "would it fit?": the placement of a claim that is not made, or why it is refused.

Its form has the fields of a flavor and an image, as that of the page "explain" of a scheduler.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from msgspec.structs import replace

from rtagent.api.page.host_map import host_map
from rtagent.api.page.owners import OwnerRows
from rtagent.api.page.queries import PageQuery
from rtagent.api.page.rendering import Content
from rtagent.errors import InvalidRequest, RtAgentError
from rtagent.model.base import MAX_INT, Value, grouped
from rtagent.model.cpuset import BadCpuSet, parse_cpu_spec
from rtagent.model.decision import Decision, Granted
from rtagent.model.device import RootPorts
from rtagent.model.node_state import NodeState
from rtagent.pci.pmem import with_namespaces

PATH = "/page/fit"
#: The owner that is tested. No instance has this uuid.
OWNER = "ffffffff-ffff-4fff-bfff-ffffffffffff"
NAME = "would-be guest"

#: Quantities of the flavor: the field of the form, its label and its hint.
QUANTITIES: Mapping[str, tuple[str, str]] = {
    "vcpus": ("vCPUs", ""),
    "memory_mb": ("Memory, MB", ""),
    "root_gb": ("Root disk, GB", ""),
    "ephemeral_gb": ("Ephemeral disk, GB", ""),
    "swap": ("Swap, MB", ""),
}
#: Extra specs with fixed values: by the field of the form, the key, the label and the values.
CHOICES: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "cpu_policy": ("hw:cpu_policy", "CPU policy", ("shared", "dedicated", "mixed")),
    "thread_policy": ("hw:cpu_thread_policy", "Threads", ("prefer", "isolate", "require")),
    "page_size": ("hw:mem_page_size", "Page size", ("small", "large", "any", "2MB", "1GB")),
    "nodes": ("hw:numa_nodes", "NUMA cells", ("1", "2", "3", "4", "8")),
}
ALIAS = "pci_passthrough:alias"
LINES = ("specs", "image")
#: Requests to begin with: what is requested, and the fields of the form.
EXAMPLES: Mapping[str, Mapping[str, object]] = {
    "2 vCPUs, 4 GiB": {"vcpus": 2, "memory_mb": 4096, "root_gb": 10},
    "4 dedicated CPUs, 8 GiB": {"vcpus": 4, "memory_mb": 8192, "cpu_policy": "dedicated"},
    "8 vCPUs in 2 NUMA cells": {"vcpus": 8, "memory_mb": 8192, "nodes": 2},
    "16 GiB in pages of 1 GiB": {"vcpus": 2, "memory_mb": 16384, "page_size": "1GB"},
}
NAMES = frozenset((*QUANTITIES, *CHOICES, "alias", "devices", *LINES))
#: The field whose quantity each path of the request describes.
_PATH = re.compile(r"\.(flavor|image)\.?(?P<name>\w+)?")
#: The host cells in the place of a reason.
_CELLS = re.compile(r"\bcells? (?P<cells>[0-9][0-9,-]*)")

TestClaim = Callable[[Mapping[str, Any]], Decision]


class FitForm(Value, frozen=True, kw_only=True):
    """The form as it was sent.

    :ivar values: by field. :ivar errors: what is wrong, by field; "": of the whole form.
    :ivar request: the arguments of ``test_claim``; None: nothing was asked, or something is wrong.
    """

    values: Mapping[str, str]
    errors: Mapping[str, str] = {}
    request: Mapping[str, Any] | None = None


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
    form = parse(query)
    answer: Mapping[str, Any] = {"verdict": ""}
    if form.request is not None:
        try:
            answer = _answered(test_claim(form.request), state, rows, ports)
        except RtAgentError as error:
            form = replace(form, errors=mistakes(error))
    names, alias = tuple(sorted(state.policy.pci.aliases)), form.values["alias"]
    values = {
        "form": form.values,
        "errors": form.errors,
        "quantities": QUANTITIES,
        "choices": CHOICES,
        "examples": examples(PATH),
        "aliases": names if not alias or alias in names else (*names, alias),
    }
    return Content(template="fit.html", values={**values, **answer})


def _answered(
    decision: Decision, state: NodeState, rows: OwnerRows, ports: RootPorts
) -> Mapping[str, Any]:
    """What the answer says, and the map that shows it."""
    if isinstance(decision, Granted):
        after = state.fold(decision.change)
        claim = with_namespaces(decision.claims[0], after)
        return {
            **host_map(after, rows, ports=ports, tested=OWNER).values,
            "verdict": "fits",
            "claim": claim,
        }
    reasons = [(reason, _cells(reason.where)) for reason in decision.reasons]
    notes = grouped((cell, str(reason)) for reason, cells in reasons for cell in cells)
    return {**host_map(state, rows, notes, ports).values, "verdict": "refused", "reasons": reasons}


def examples(path: str) -> Mapping[str, str]:
    """Return links to a page whose form has the fields of `EXAMPLES`, by what is requested."""
    return {label: f"{path}?{urlencode(fields)}" for label, fields in EXAMPLES.items()}


def parse(query: Mapping[str, str]) -> FitForm:
    """Read the form.

    :raises InvalidRequest: the query has other fields.
    """
    asked = PageQuery(PATH, query, NAMES)
    values = {name: asked.text(name) for name in sorted(NAMES)}
    if not query:
        return FitForm(values=values)
    errors: dict[str, str] = {}
    flavor: dict[str, Any] = dict(_quantities(values, errors))
    specs = dict(pairs("specs", values["specs"], errors))
    for name, (key, _, choices) in CHOICES.items():
        if values[name] and values[name] not in choices:
            errors[name] = f"Choose one of {', '.join(choices)}."
        elif values[name] and specs.setdefault(key, values[name]) != values[name]:
            errors["specs"] = f"{key} is chosen above with another value."
    if values["alias"]:
        number = _number(values["devices"] or "1")
        if number is None or number < 1:
            errors["devices"] = "Give a number of at least 1."
        else:
            specs.setdefault(ALIAS, f"{values['alias']}:{number}")
    image = dict(pairs("image", values["image"], errors))
    if errors:
        return FitForm(values=values, errors=errors)
    instance = {
        "uuid": OWNER,
        "display_name": NAME,
        "flavor": {**flavor, "extra_specs": specs},
        "image": {"properties": image},
    }
    return FitForm(values=values, request={"instance": instance})


def mistakes(error: RtAgentError, root: str = "$.instance") -> Mapping[str, str]:
    """Return what an error says, by field; "": of the whole form.

    :param root: the path of the document that has flavor and image.
    """
    if not isinstance(error, InvalidRequest) or "errors" not in error.kwargs:
        return {"": error.message}
    found: dict[str, str] = {}
    for each in error.kwargs["errors"]:
        matched = _PATH.match(each["path"].removeprefix(root))
        name = matched["name"] if matched else None
        field = {"extra_specs": "specs", "properties": "image"}.get(name or "", name or "")
        found[field if field in NAMES else ""] = f"{each['message']}"
    return found


def pairs(name: str, text: str, errors: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the lines ``KEY=VALUE`` of a text. Note a mistake under the name of the field."""
    seen = set[str]()
    for line in filter(None, map(str.strip, text.splitlines())):
        key, separator, value = (part.strip() for part in line.partition("="))
        if not key or not separator:
            errors[name] = f"{line[:80]!r} is not KEY=VALUE. Write one pair on each line."
        elif key in seen:
            errors[name] = f"{key[:80]!r} is given twice."
        else:
            seen.add(key)
            yield key, value


def _quantities(values: Mapping[str, str], errors: dict[str, str]) -> Iterator[tuple[str, int]]:
    for name in QUANTITIES:
        least = 1 if name in ("vcpus", "memory_mb") else 0
        if not values[name] and not least:
            continue
        number = _number(values[name])
        if number is None or number < least:
            errors[name] = f"Give a number from {least} to {MAX_INT}."
        else:
            yield name, number


def _number(text: str) -> int | None:
    if not (text.isascii() and text.isdecimal() and len(text) <= 10):
        return None
    number = int(text)
    return number if number <= MAX_INT else None


def _cells(where: str) -> tuple[int, ...]:
    """The host cells that a place names; none: the whole host."""
    named = _CELLS.search(where)
    if named is None:
        return ()
    try:
        return tuple(sorted(parse_cpu_spec(named["cells"])))
    except BadCpuSet:
        return ()
