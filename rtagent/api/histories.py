"""JSON views of what has happened: the last hour, and the recorded history of claims."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import asdict

from rtagent.api.page.sources import PageSources
from rtagent.errors import ClaimNotFound, InvalidRequest
from rtagent.model.node_state import NodeState
from rtagent.model.timeline import ENTRY_KIND

TIMELINE_FILTERS = frozenset({"kind"})
HISTORY_FILTERS = frozenset({"before"})


def timeline(sources: PageSources, filters: Mapping[str, str]) -> Mapping[str, Any]:
    """``{"timeline": [TimelineEntry], "since"}``: the last hour, newest first.

    ``since``: the entries are complete from here on.

    :param filters: ``kind``.
    :raises InvalidRequest: there is no such kind.
    """
    kind = filters.get("kind")
    if kind is not None and kind not in ENTRY_KIND:
        raise InvalidRequest.at("GET /timeline", "kind", f"not one of {', '.join(ENTRY_KIND)}")
    view = sources.timeline()
    found = [each for each in view.entries if kind in (None, each.kind)]
    return {"timeline": found, "since": view.since}


def history(
    sources: PageSources, state: NodeState, claim_uuid: str | None, filters: Mapping[str, str]
) -> Mapping[str, Any]:
    """``{"history": [ClaimEvent with its number], "older"}``: recorded events, newest first.

    ``older``: the filter ``before`` for the events that follow; null: there are none.

    :param claim_uuid: None: of all claims.
    :param filters: ``before``: only events with a lower number.
    :raises InvalidRequest: that is no number. :raises ClaimNotFound: there is no record of it.
    :raises Unavailable: the database does not answer now.
    """
    before = filters.get("before")
    if before is not None and not (before.isascii() and before.isdecimal() and len(before) < 19):
        raise InvalidRequest.at("GET /history", "before", "not a number")
    page = sources.history(state, claim_uuid, None if before is None else int(before))
    if claim_uuid is not None and not page.events and before is None:
        raise ClaimNotFound(claim_uuid=claim_uuid)
    events = [{"number": each.number, **asdict(each.event)} for each in page.events]
    return {"history": events, "older": page.older}
