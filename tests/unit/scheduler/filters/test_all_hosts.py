"""AllHostsFilter refuses nothing."""

from __future__ import annotations

from rtagent.model.host_report import ServiceState
from rtagent.scheduler.filters.hosts import AllHostsFilter
from tests.support.host_states import host_state
from tests.support.scheduling import passes, scheduler_request


def test_every_host_passes():
    disabled = host_state(service=ServiceState(disabled=True))
    assert passes(AllHostsFilter, disabled, scheduler_request())
