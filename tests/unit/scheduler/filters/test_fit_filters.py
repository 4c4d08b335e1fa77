"""NUMATopologyFilter and PciPassthroughFilter: what they judge, and by which rule."""

from __future__ import annotations

import pytest

from rtagent.conf.filter_scheduler import FilterOptions
from rtagent.errors import InvalidFlavor
from rtagent.model.request import PciRequest
from rtagent.scheduler.claim_template import claim_template
from rtagent.scheduler.filter import Request
from rtagent.scheduler.filters.hosts import NUMATopologyFilter, PciPassthroughFilter
from rtagent.scheduler.fits import Fits
from tests.support.device_states import device_host
from tests.support.host_states import host_state
from tests.support.hosts import NOON, PINNED, host, uid
from tests.support.scheduling import spec

PLAIN, WITH_DEVICES = host_state("cn1", host()), host_state("cn2", device_host())
PORT = PciRequest(count=1, request_id="p", spec=({"vendor_id": "10de"},), source="neutron_port")


def check(filter_class, **fields):
    wanted = spec(1, 512, **fields)
    fit = Fits().of_request(claim_template(wanted), lambda state, _: state.replica, NOON)
    request = Request(spec=wanted, instance_uuid=uid(), alive_since=0, now=NOON, fit=fit)
    return filter_class(FilterOptions()).prepare(request)


@pytest.mark.parametrize(
    ("filter_class", "fields", "why"),
    [
        (NUMATopologyFilter, {"extra_specs": PINNED}, "cpu_dedicated_set"),
        (PciPassthroughFilter, {"pci_requests": (PORT,)}, "PCI"),
        (
            PciPassthroughFilter,
            {"extra_specs": {"pci_passthrough:alias": "gpu:1"}},
            "alias of this host does not define it",
        ),
    ],
)
def test_a_host_without_what_the_guest_needs_is_refused(filter_class, fields, why):
    judge = check(filter_class, **fields)
    assert why in judge(PLAIN).message
    assert judge(WITH_DEVICES) is None


@pytest.mark.parametrize("filter_class", [NUMATopologyFilter, PciPassthroughFilter])
def test_a_plain_guest_is_not_judged(filter_class):
    assert check(filter_class) is None


def test_a_flavor_that_is_invalid_everywhere_is_an_error_of_the_request():
    request = Request(
        spec=spec(extra_specs={"hw:numa_nodes": "x"}), instance_uuid=uid(), alive_since=0, now=NOON
    )
    with pytest.raises(InvalidFlavor):
        NUMATopologyFilter(FilterOptions()).prepare(request)
