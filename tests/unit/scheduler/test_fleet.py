"""The hosts of the fleet as capacity is counted on them."""

from __future__ import annotations

from msgspec.structs import replace

from rtagent import claims
from rtagent.conf.filter_scheduler import FilterOptions
from rtagent.model.decision import Granted
from rtagent.model.host_report import ServiceState
from rtagent.model.request import Flavor
from rtagent.model.server import RequestSpec
from rtagent.ports import NullReporter
from rtagent.scheduler.filter import Request
from rtagent.scheduler.filtering import HostFilters
from rtagent.scheduler.fleet import fleet_hosts
from rtagent.scheduler.host_manager import HostManager
from tests.support.host_states import SEEN, host_state
from tests.support.hosts import NOON, ManualClock, call, host, request, uid
from tests.support.reporting_agents import ReportingAgent, deliver

SPEC = RequestSpec(flavor=Flavor(vcpus=1, memory_mb=512))


def judged_by(*filters):
    return HostFilters.load(FilterOptions(enabled_filters=filters))


def asked(spec=SPEC):
    return Request(spec=spec, instance_uuid=uid(1), alive_since=SEEN, now=NOON)


def refusals(hosts, *filters, spec=SPEC):
    made = fleet_hosts(hosts, asked(spec), judged_by(*filters), lambda state, _: state.replica)
    return {each.host: each.refused for each in made}


def test_a_host_is_refused_by_the_first_filter_that_does_and_by_what_the_request_names():
    hosts = [
        host_state("free"),
        host_state("off", service=ServiceState(disabled=True, disabled_reason="disks")),
        host_state("ignored"),
    ]
    spec = replace(SPEC, ignore_hosts=("ignored",))
    assert refusals(hosts, "ComputeFilter", spec=spec) == {
        "free": "",
        "off": "ComputeFilter: its service is disabled: disks",
        "ignored": "ignore_hosts: the request ignores this host",
    }


def test_a_host_whose_agent_grants_nothing_is_refused_without_a_filter_too():
    hosts = [
        host_state("drained", service=ServiceState(draining="reboot")),
        host_state("waiting", up=False, why_not="the libvirt connection is lost"),
        host_state("off", service=ServiceState(disabled=True)),
    ]
    assert refusals(hosts) == {
        "drained": "agent: it is being drained",
        "waiting": "agent: it grants no claims: the libvirt connection is lost",
        "off": "",
    }


def test_a_host_without_room_is_not_refused():
    full = host_state("full", host(reserved_memory_mb=16 * 1024))
    assert refusals([full], "NUMATopologyFilter") == {"full": ""}


def test_the_claim_of_a_guest_ends_on_the_state_with_its_own_claims():
    agent = ReportingAgent("cn1")
    claim = agent.claim(request(2, 4096))
    manager = HostManager(ManualClock(), NullReporter(), lambda _: None)
    deliver(manager, *agent.answer())
    hosts = manager.get_all_host_states()
    [found] = fleet_hosts(hosts, asked(), judged_by(), manager.replica_for)
    assert found.instances[claim.owner_id].claims == (claim,)
    assert found.state.usage.memory_mb == 4096
    state = found.own_state(found.state, claim.owner_id)
    decision = claims.release_claim(state, call("release_claim"), NOON, claim.uuid)
    assert isinstance(decision, Granted)
    assert state.fold(decision.change).usage.memory_mb == 0
