"""IsolatedHostsFilter: hosts and images that are for one another."""

from __future__ import annotations

import pytest

from rtagent.scheduler.filters.hosts import IsolatedHostsFilter
from tests.support.host_states import host_state
from tests.support.scheduling import passes, scheduler_request

IMAGE = "the-image"
OPTION = "restrict_isolated_hosts_to_isolated_images"


@pytest.mark.parametrize(
    ("restricted", "image", "host", "passing"),
    [
        (True, IMAGE, "isolated", True),
        (True, IMAGE, "other", False),
        (True, "another", "isolated", False),
        (True, "another", "other", True),
        (True, None, "isolated", False),
        (True, None, "other", True),
        (False, IMAGE, "isolated", True),
        (False, IMAGE, "other", False),
        (False, "another", "isolated", True),
        (False, "another", "other", True),
    ],
)
def test_isolated_images_and_hosts_find_one_another(restricted, image, host, passing):
    options = {"isolated_images": (IMAGE,), "isolated_hosts": ("isolated",), OPTION: restricted}
    request = scheduler_request(image_id=image)
    assert passes(IsolatedHostsFilter, host_state(host), request, **options) is passing


@pytest.mark.parametrize(("restricted", "passing"), [(True, False), (False, True)])
def test_without_isolated_images_isolated_hosts_are_for_none(restricted, passing):
    options = {"isolated_hosts": ("isolated",), OPTION: restricted}
    request = scheduler_request(image_id=IMAGE)
    assert passes(IsolatedHostsFilter, host_state("isolated"), request, **options) is passing
    assert passes(IsolatedHostsFilter, host_state("other"), request, **options)


def test_without_options_every_host_passes():
    assert passes(IsolatedHostsFilter, host_state(), scheduler_request(image_id=IMAGE))
