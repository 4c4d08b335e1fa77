"""The page "explain": what each filter and weigher of a scheduler says about each host."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, get_args

from msgspec.structs import replace

from rtagent.api.page import fit
from rtagent.api.page.fit import CHOICES, QUANTITIES, FitForm
from rtagent.api.page.queries import PageQuery
from rtagent.api.page.rendering import Content
from rtagent.errors import RtAgentError
from rtagent.model.server import Purpose
from rtagent.scheduler.explanation import ExplainedHost, Explanation

PATH = "/page/explain"
#: Rows of one page.
ROWS = 100
PURPOSES: tuple[str, ...] = get_args(Purpose)
#: Fields of the request that are one text each: the label and the field of the request.
TEXTS: Mapping[str, tuple[str, str]] = {
    "zone": ("Availability zone", "availability_zone"),
    "project": ("Project", "project_id"),
}
NAMES = frozenset((*fit.NAMES, *TEXTS, "purpose", "instance", "hints", "host", "by", "from"))

Explain = Callable[[Mapping[str, Any]], Explanation]


def explain_page(query: Mapping[str, str], explain: Explain) -> Content:
    """Return the form, with the explanation if something was asked."""
    asked = PageQuery(PATH, query, NAMES)
    form = _parse(asked, query)
    values: dict[str, Any] = {"explained": False}
    if form.request is not None:
        try:
            explanation = explain(form.request)
        except RtAgentError as error:
            form = replace(form, errors=_mistakes(error))
        else:
            values = _shown(explanation, asked)
    return Content(
        template="explain.html",
        values={
            "form": form.values,
            "errors": form.errors,
            "quantities": QUANTITIES,
            "choices": CHOICES,
            "texts": {name: label for name, (label, _) in TEXTS.items()},
            "purposes": PURPOSES,
            "examples": fit.examples(PATH),
            **values,
        },
        live=False,
    )


def _parse(asked: PageQuery, query: Mapping[str, str]) -> FitForm:
    of_flavor = {name: value for name, value in query.items() if name in fit.NAMES}
    form = fit.parse(of_flavor)
    more = {name: asked.text(name) for name in sorted(NAMES - fit.NAMES)}
    values = {**form.values, **more}
    if form.request is None:
        return replace(form, values=values)
    instance = form.request["instance"]
    errors: dict[str, str] = {}
    spec: dict[str, Any] = {
        "flavor": instance["flavor"],
        "image": instance["image"],
        "scheduler_hints": dict(fit.pairs("hints", values["hints"], errors)),
        **{field: values[name] for name, (_, field) in TEXTS.items() if values[name]},
    }
    if values["purpose"] and values["purpose"] not in PURPOSES:
        errors["purpose"] = f"Choose one of {', '.join(PURPOSES)}."
    elif values["purpose"]:
        spec["purpose"] = values["purpose"]
    request = {"request_spec": spec, "instance_uuid": values["instance"] or None}
    return FitForm(values=values, errors=errors, request=None if errors else request)


def _mistakes(error: RtAgentError) -> Mapping[str, str]:
    """What an error says, by field of the form."""
    paths = {f"$.request_spec.{field}": name for name, (_, field) in TEXTS.items()}
    paths |= {
        "$.instance_uuid": "instance",
        "$.request_spec.purpose": "purpose",
        "$.request_spec.scheduler_hints": "hints",
    }
    found: dict[str, str] = {}
    for each in error.kwargs.get("errors", ()):
        start = next((known for known in paths if each["path"].startswith(known)), None)
        if start is not None:
            found[paths[start]] = each["message"]
    return found or fit.mistakes(error, "$.request_spec")


def _shown(explanation: Explanation, asked: PageQuery) -> dict[str, Any]:
    """The hosts, best first, then those that are refused."""
    refusals = Counter(
        name
        for host in explanation.hosts
        for name in dict.fromkeys(each.filter for each in host.objections)
    )
    by, name_part = asked.text("by"), asked.text("host").casefold()
    rows = [host for host in explanation.hosts if _matches(host, by, name_part)]
    fitting = sum(each.rank is not None for each in explanation.hosts)
    return {
        "explained": True,
        "filters": explanation.filters,
        "unmatched": explanation.unmatched,
        "fitting": fitting,
        "hosts": len(explanation.hosts),
        "refusals": refusals.most_common(),
        "by": by,
        "by_links": {name: asked.link(by=name, **{"from": None}) for name in refusals},
        "all_link": asked.link(by=None, **{"from": None}),
        **asked.part(rows, ROWS),
    }


def _matches(host: ExplainedHost, by: str, part: str) -> bool:
    if by and by not in (each.filter for each in host.objections):
        return False
    return not part or part in host.host.casefold() or part in host.nodename.casefold()
