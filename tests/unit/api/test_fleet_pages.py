"""The pages of a scheduler, without a browser."""

import re
from http import HTTPStatus

import pytest

from rtagent.api.page.fleet import CLOSED, DISABLED, DOWN, DRAINING, UP, fleet
from rtagent.errors import TooManyRequests
from rtagent.model.host_report import ServiceState
from rtagent.service.explanations import Explanations
from tests.support.api_states import DOWN_TIME, PageFleet, simulated
from tests.support.host_states import SEEN, host_state
from tests.support.hosts import PINNING, uid
from tests.support.hosts import host as agent_host
from tests.support.scheduling import spec


@pytest.mark.parametrize(
    ("fields", "status", "why"),
    [
        ({}, UP, ""),
        ({"seen": SEEN - DOWN_TIME}, DOWN, "silent"),
        ({"service": ServiceState(forced_down=True, disabled=True)}, DOWN, "forced down"),
        ({"service": ServiceState(draining="fans", disabled=True)}, DRAINING, "fans"),
        ({"service": ServiceState(disabled=True, disabled_reason="no")}, DISABLED, "no"),
        ({"up": False, "why_not": "it starts"}, CLOSED, "it starts"),
    ],
)
def test_the_worst_status_of_a_host_is_shown(fields, status, why):
    [host] = fleet([host_state(**fields)], SEEN, DOWN_TIME)
    assert host.status == status
    assert why in host.why


def test_promised_parts_are_of_what_can_be_claimed():
    [host] = fleet([simulated(9)], SEEN, DOWN_TIME)
    state = simulated(9).capacity
    used = simulated(9).replica.usage
    expected = 100 * used.vcpus / (used.vcpus + state.free_vcpus)
    assert host.promised["vcpus"] == pytest.approx(expected, abs=0.1)
    assert host.most == max(host.promised.values()) > 0
    [pinning] = fleet([host_state(state=agent_host(numa=PINNING))], SEEN, DOWN_TIME)
    assert pinning.promised.keys() == {"vcpus", "pcpus", "memory", "disk"}


def test_decisions_are_shown_newest_first():
    made = PageFleet.of(4)
    made.scheduler.select_destinations(spec(), [uid(101)])
    made.scheduler.select_destinations(spec(), [uid(102), uid(103)])
    page = made.sources.answer("/page/decisions").body.decode()
    assert page.index(uid(103)) < page.index(uid(101))
    assert "2 selected" in page and "0 failed" in page


@pytest.mark.parametrize(
    "path",
    ["/?status=x", "/?nonsense=1", "/?from=-1", "/?by=x", "/?sort=x", "/page/decisions?outcome=x",
     "/page/explain?nonsense=1"],
)  # fmt: skip
def test_a_wrong_query_is_named(path):
    reply = PageFleet.of(3).sources.answer(path)
    assert reply.status == HTTPStatus.BAD_REQUEST
    name = re.search(r"\?(\w+)=", path)
    assert name is not None and name[1].encode() in reply.body


def test_the_page_of_a_thousand_hosts_is_small():
    reply = PageFleet.of(1000).sources.answer("/?group=zone")
    assert reply.body.count(b'class="tile heat-') >= 1000
    assert len(reply.body) < 600_000


def test_an_explanation_waits_for_the_one_before_it_in_bounded_time():
    made = PageFleet.of(3)

    class Nested:
        """Asks for an explanation while one is made."""

        def explain(self, *arguments):
            with pytest.raises(TooManyRequests, match="ask again"):
                explanations.explain(DOCUMENT)
            return made.scheduler.explain(*arguments)

    explanations = Explanations(Nested())
    assert len(explanations.explain(DOCUMENT).hosts) == 3
    assert len(explanations.explain({**DOCUMENT, "instance_uuid": uid(1)}).hosts) == 3


DOCUMENT = {"request_spec": {"flavor": {"vcpus": 1, "memory_mb": 64}}, "instance_uuid": None}


def test_mistakes_in_a_request_are_shown_at_their_fields():
    sources = PageFleet.of(2).sources
    path = "/page/explain?vcpus=1&memory_mb=64"
    page = sources.answer(f"{path}&instance=x&zone={'z' * 300}").body.decode()
    for name in ("instance", "zone"):
        assert re.search(rf'name="{name}"[^>]*aria-invalid', page), name
    page = sources.answer(f"{path}&specs=hw:cpu_thread_policy%3Dx").body.decode()
    assert 'role="alert" id="mistake"' in page


def test_links_keep_a_query_that_is_longer_than_a_text_that_is_shown():
    words = 1200 * "y"
    body = PageFleet.of(3).sources.answer(f"/?status=up&q={words}").body.decode()
    links = re.findall(r'href="(/\?[^"]*)"', body)
    assert links and all("…" not in each for each in links)
    assert any(f"q={words}" in each for each in links)
