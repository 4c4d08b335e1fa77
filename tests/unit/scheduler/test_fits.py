"""Claims of requests: their templates, and verdicts, which are kept until the host changes."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from msgspec.structs import replace

from rtagent.model.claim import BUILD, Claim
from rtagent.model.request import Limits, NetworkMetadata, NumaLimits
from rtagent.model.server import ImageRequest
from rtagent.scheduler.claim_template import NO_OWNER, claim_template
from rtagent.scheduler.errors import NoValidHost
from rtagent.scheduler.filter import Rejection
from rtagent.scheduler.fits import Fits
from tests.support.device_states import device_host
from tests.support.host_states import host_state
from tests.support.hosts import NOON, PINNED, PINNING, host, uid
from tests.support.reporting_agents import ReportingAgent, reported
from tests.support.scheduling import scheduler, spec

HOST = host_state("cn1", host(numa=PINNING))


def fit(fits: Fits, wanted):
    """Return the fit of a request."""
    return fits.of_request(claim_template(wanted), lambda host, _: host.replica, NOON)


def test_a_verdict_is_kept_until_the_host_changes():
    fits, wanted = Fits(), spec(2, 512, extra_specs=PINNED)
    first = fit(fits, wanted)(HOST, uid())
    assert isinstance(first, Claim)
    renamed = replace(wanted, flavor=replace(wanted.flavor, name="other"), project_id="p")
    assert fit(fits, renamed)(HOST, uid()) is first
    assert fit(fits, wanted)(replace(HOST, version=HOST.version + 1), uid()) is not first


@pytest.mark.parametrize(
    "other",
    [
        {"memory_mb": 513},
        {"is_bfv": True},
        {"purpose": "evacuation"},
        {"extra_resource": {"MEMORY_MB": 1}},
        {"limits": Limits(vcpu=1)},
        {"network_metadata": NetworkMetadata(tunneled=True)},
    ],
    ids=str,
)
def test_a_request_that_asks_for_anything_else_has_its_own_verdict(other):
    fits, asked = Fits(), {"vcpus": 2, "memory_mb": 512, "extra_specs": PINNED}
    first = fit(fits, spec(**asked))(HOST, uid())
    assert fit(fits, spec(**asked | other))(HOST, uid()) is not first


def test_the_oldest_requests_verdicts_are_dropped_at_the_limit():
    fits, first, second = Fits(limit=1), spec(1, 100), spec(1, 200)
    kept = fit(fits, first)(HOST, uid())
    for _ in range(2):
        fit(fits, second)(replace(HOST, uuid=uid()), uid())
    assert fit(fits, second)(HOST, uid())
    assert fit(fits, first)(HOST, uid()) is not kept


def test_what_a_host_does_not_define_refuses_that_host_only():
    judged = fit(Fits(), spec(extra_specs={"pci_passthrough:alias": "gpu:1"}))
    assert isinstance(judged(host_state("gpus", device_host()), uid()), Claim)
    rejection = judged(HOST, uid())
    assert isinstance(rejection, Rejection)
    assert "[pci] alias of this host does not define it" in rejection.message
    unobserved = fit(Fits(), spec())(host_state("cn2", host(topology=None)), uid())
    assert isinstance(unobserved, Rejection)


def test_a_host_that_cannot_be_judged_refuses_and_others_are_judged():
    def replica_for(host, owner_id):
        raise KeyError("cell 7")

    owner = uid()
    odd = host_state("cn2", instances=[owner])
    decide = Fits().of_request(claim_template(spec()), replica_for, NOON)
    rejection = decide(odd, owner)
    assert isinstance(rejection, Rejection)
    assert rejection.message == "this host cannot be judged: KeyError: 'cell 7'"
    assert isinstance(decide(HOST, owner), Claim)


def test_requests_without_verdicts_are_dropped_at_the_limit():
    fits, first = Fits(limit=10), spec(1, 100)
    kept = fit(fits, first)(HOST, uid())
    for number in range(12):
        fit(fits, spec(1, 200 + number))
    assert fit(fits, first)(HOST, uid()) is not kept


def test_the_claims_limits_have_the_networks_of_the_request():
    networks = NetworkMetadata(physnets=("foo",))
    limits = Limits(vcpu=5, numa_topology=NumaLimits(cpu_allocation_ratio=2.0))
    template = claim_template(spec(limits=limits, network_metadata=networks))
    assert template.build.limits == Limits(
        vcpu=5, numa_topology=NumaLimits(cpu_allocation_ratio=2.0, network_metadata=networks)
    )
    assert template.plain is None
    assert claim_template(spec()).plain is not None


def test_calls_at_the_same_time_assume_no_cpu_twice():
    agents = [ReportingAgent(f"cn{number}", host(numa=PINNING)) for number in range(4)]
    manager = reported(*agents)
    chooser = scheduler(manager, filters=["NUMATopologyFilter"])

    def select(_: int) -> bool:
        with suppress(NoValidHost):
            chooser.select_destinations(spec(2, 100, 0, extra_specs=PINNED), [uid()])
            return True
        return False

    with ThreadPoolExecutor(6) as threads:
        selected = list(threads.map(select, range(24)))
    assert selected.count(True) == 12  # three pairs of CPUs on each host
    for state in manager.get_all_host_states():
        assert len(state.replica.usage.numa.pinned) == 6
        assert set(state.replica.usage.numa.pinned.values()) == {1}


def test_the_request_of_an_instances_claim():
    image, owner = ImageRequest(properties={"hw_cpu_policy": "shared"}), uid()
    asked = spec(project_id="p", user_id="u", os_type="linux", is_bfv=True, image=image)
    template = claim_template(asked)
    instance = template.build_request(owner).instance
    assert (instance.uuid, instance.project_id, instance.user_id) == (owner, "p", "u")
    assert (instance.os_type, instance.is_volume_backed) == ("linux", True)
    assert instance.image.properties == {"hw_cpu_policy": "shared"}
    assert template.build.instance.uuid == NO_OWNER


def test_kinds_of_claims():
    purposes = ("build", "unshelve", "resize", "migration", "live-migration", "evacuation")
    kinds = [claim_template(spec(purpose=purpose)).kind for purpose in purposes]
    assert kinds == [BUILD, BUILD, *purposes[2:]]


def test_only_a_live_migration_keeps_page_sizes():
    pages = {"hw:mem_page_size": "any"}
    for purpose, sizes in (("live-migration", (2048,)), ("resize", ())):
        template = claim_template(spec(purpose=purpose, extra_specs=pages), (2048,))
        assert template.page_sizes == sizes
        assert template.move_request(template.build).source.page_sizes == sizes
