"""The hosts of the fleet as capacity is counted on them."""

from __future__ import annotations

from msgspec.structs import replace

from rtagent.conf.filter_scheduler import FilterOptions
from rtagent.model.host_report import ServiceState
from rtagent.model.request import Flavor
from rtagent.model.server import RequestSpec
from rtagent.scheduler.filter import Request
from rtagent.scheduler.filtering import HostFilters
from rtagent.scheduler.fleet import fleet_hosts
from tests.support.host_states import SEEN, host_state
from tests.support.hosts import NOON, uid

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
