"""One hostile text in the names of every page of an agent and of a scheduler."""

import html
import re

import pytest
from immutables import Map
from msgspec.structs import replace

from rtagent.api.application import Answering
from rtagent.model.node_state import NodeState
from rtagent.model.request import InstanceFacts
from tests.support.api_states import PageFleet, populated, sources
from tests.support.host_states import host_state
from tests.support.odd_documents import HOSTILE
from tests.support.owned_hosts import devices_in_every_state

#: Pages of one source that are read.
MOST = 30


def named(state: NodeState) -> NodeState:
    """Return the state with the name in every claim, and in every domain without a claim."""
    facts = InstanceFacts(display_name=HOSTILE, project_id=HOSTILE)
    claims = {uuid: replace(claim, instance=facts) for uuid, claim in state.claims.items()}
    usages = {uuid: replace(usage, name=HOSTILE) for uuid, usage in state.domain_usages.items()}
    return replace(state, claims=Map(claims), domain_usages=Map(usages))


def agent() -> Answering:
    return sources(named(populated()))


def devices() -> Answering:
    return sources(named(devices_in_every_state()))


def fleet() -> Answering:
    return PageFleet(host_state("cn1", named(populated()), up=False, why_not=HOSTILE)).sources


@pytest.mark.parametrize("made", [agent, devices, fleet], ids=lambda made: made.__name__)
def test_no_page_shows_it_raw(made):
    answering, waiting, seen, shown = made(), ["/"], set[str](), 0
    while waiting and len(seen) < MOST:
        path = waiting.pop(0)
        reply = answering.answer(path)
        if path in seen or not reply.media_type.startswith("text/html"):
            continue
        seen.add(path)
        page = reply.body.decode()
        raw = [char for char in page if not char.isprintable() and char not in "\n\t"]
        assert (raw, "<script>alert" in page, "[red]" in page) == ([], False, "FORGED" in page)
        shown += page.count("FORGED")
        waiting += map(html.unescape, re.findall(r'href="(/[^"#]*)"', page))
    assert shown and len(seen) > 2
