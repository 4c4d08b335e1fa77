"""Who may call what: every method of both APIs with every role."""

from collections.abc import Callable
from typing import Any

import pytest
from oslo_context.context import RequestContext
from oslo_messaging.rpc.dispatcher import ExpectedException

from rtagent.conf.rpc import ROLES
from rtagent.errors import InvalidRequest
from rtagent.rpc import AGENT, SCHEDULER
from rtagent.rpc.errors import NotAuthorized
from rtagent.rpc.methods import TABLES
from rtagent.rpc.roles import ENOUGH, MEANINGS
from tests.support.rpc import Agent
from tests.support.scheduler_rpc import SchedulerRpc

READS = {
    *("test_release", "test_adoption", "test_claim", "get_claim", "get_claims_for_instance"),
    *("get_claims_for_host", "get_node", "get_restore", "get_document"),
}
CLAIMS = {
    *("instance_claim", "activate_claim", "renew_claim", "abort_instance_claim", "release_claim"),
    *("instance_claims", "update_usage", "build_failed", "build_succeeded"),
    *("resize_claim", "live_migration_claim", "rebuild_claim", "start_move_out", "finish_move"),
    *("finish_evacuation", "drop_move_claim_at_source", "drop_move_claim_at_dest"),
    *("finish_revert", "drop_move_claim"),
    *("claim_pci_devices", "allocate_pci_devices_for_instance", "unclaim_pci_devices"),
    *("free_pci_device_claims_for_instance", "free_pci_device_allocations_for_instance"),
    "delete_allocation_for_evacuated_instance",
    "delete_allocation_for_migrated_instance",
    "delete_allocation_for_shelve_offloaded_instance",
}
AGENT_RIGHTS = {
    "reader": {"ping", *READS},
    "conductor": {"ping", *READS, *CLAIMS},
    "scheduler": {"ping", *READS, "report_host_state", "update_forced_down"},
    "agent": {"ping"},
}
SCHEDULER_READS = {"ping", "advise", "explain", "count_room", "get_aggregates", "get_service"}
SCHEDULER_RIGHTS = {
    "reader": SCHEDULER_READS,
    "conductor": {*SCHEDULER_READS, "select_destinations", "forget_claim"},
    "scheduler": {*SCHEDULER_READS, "drop_assumed_claim", "update_aggregates"},
    "agent": {
        *("ping", "update_host_state", "update_instance_info"),
        *("delete_instance_info", "sync_instance_info"),
    },
}
RIGHTS = {AGENT: AGENT_RIGHTS, SCHEDULER: SCHEDULER_RIGHTS}
ENDPOINTS: dict[str, Callable[[], Any]] = {
    AGENT: lambda: Agent().endpoint,
    SCHEDULER: lambda: SchedulerRpc().endpoint,
}


def refusal(endpoint: Any, method: str, roles: list[str]) -> BaseException | None:
    """Call a method with an invalid document, and return why its caller may not."""
    context = RequestContext(user_id="mallory", roles=roles, overwrite=False)
    with pytest.raises(ExpectedException) as expected:
        getattr(endpoint, method)(context, nonsense=1)
    error = expected.value.exc_info[1]
    if isinstance(error, NotAuthorized):
        return error
    assert isinstance(error, InvalidRequest)
    return None


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("topic", sorted(TABLES))
def test_each_role_may_call_exactly_its_methods(topic: str, role: str):
    endpoint, methods = ENDPOINTS[topic](), TABLES[topic].methods
    allowed = {name for name in methods if refusal(endpoint, name, [role]) is None}
    assert allowed == RIGHTS[topic].get(role, set(methods))


def test_refusal_names_method_caller_missing_role_and_remedy():
    error = refusal(Agent().endpoint, "release_claim", ["reader", "scheduler"])
    assert str(error) == (
        "release_claim needs the role conductor, which the caller 'mallory' does not have: it has"
        " 'reader, scheduler'. An operator adds roles to its key in [rpc] keys_file; a caller"
        " without a key names them in its request context"
    )


@pytest.mark.parametrize("topic", sorted(TABLES))
def test_every_method_has_a_role_that_is_explained(topic: str):
    assert {method.role for method in TABLES[topic].methods.values()} <= ENOUGH.keys()
    assert ENOUGH.keys() == MEANINGS.keys()


@pytest.mark.parametrize("topic", sorted(TABLES))
def test_callers_who_say_no_role_may_not_administer(topic: str):
    endpoint = ENDPOINTS[topic]()
    refused = {name for name in TABLES[topic].methods if refusal(endpoint, name, [])}
    assert refused == TABLES[topic].methods.keys() - set.union(*RIGHTS[topic].values())
    assert refused
