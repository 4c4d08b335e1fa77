"""Passes over a tree, with other writers, refusals and outages."""

import pytest
from msgspec.structs import replace

from rtagent.errors import PlacementConflict, PlacementError, PlacementUnavailable
from rtagent.placement.provider import Ownership
from rtagent.placement.synchroniser import ATTEMPTS, PassResult, Synchroniser
from rtagent.telemetry.telemetry import Telemetry
from rtagent.testing.placement import MemoryPlacement
from tests.support.hosts import ManualClock, uid
from tests.unit.placement.values import ROOT, contents, provider, record, tree

VCPUS = {"VCPU": record(8)}
WANTED = tree(provider(VCPUS, {"COMPUTE_NODE"}))
READ = ["provider", "traits", "inventories"]


class Setup:
    """A synchroniser, Placement, and the ownership records, which survive a restart."""

    def __init__(self):
        self.api, self.ownership = MemoryPlacement(), Ownership()
        self.restart()

    def restart(self):
        self.synchroniser = Synchroniser(self.api, self.ownership)

    def sync(self, wanted=WANTED, *, refresh=False):
        """Return the outcome and the requests."""
        self.api.requests.clear()
        if refresh:
            self.synchroniser.look_again()
        return self.synchroniser.sync(wanted), list(self.api.requests)

    @property
    def shown(self):
        return self.api.shown(ROOT)


@pytest.fixture
def setup():
    return Setup()


def total(setup, resource="VCPU"):
    return setup.shown["inventories"][resource]["total"]


class Interrupted(MemoryPlacement):
    """:ivar between: called once, between the reads of the traits and of the inventories."""

    between = staticmethod(lambda: None)

    def inventories(self, uuid):
        between, self.between = self.between, lambda: None
        between()
        return super().inventories(uuid)


@pytest.fixture
def interrupted(setup):
    setup.api = Interrupted()
    setup.restart()
    return setup


def test_a_refresh_reads_a_provider_that_changed_while_it_was_read(interrupted):
    interrupted.sync()
    interrupted.restart()
    interrupted.api.between = lambda: interrupted.api.overwrite(ROOT, traits=[])
    assert interrupted.sync()[1] == READ
    assert interrupted.sync(refresh=True)[1][:4] == ["tree", *READ]
    assert interrupted.shown["traits"] == ["COMPUTE_NODE"]


def test_a_trait_set_between_the_two_reads_is_preserved(interrupted):
    interrupted.api.create_provider(ROOT, "cn1")
    interrupted.api.between = lambda: interrupted.api.overwrite(ROOT, traits=["CUSTOM_GOLD"])
    interrupted.sync(tree(provider(VCPUS)))
    assert interrupted.sync()[0].problems == ()
    assert set(interrupted.shown["traits"]) == {"COMPUTE_NODE", "CUSTOM_GOLD"}


def test_a_refresh_looks_up_unknown_traits_again(setup):
    wanted = tree(provider(VCPUS, {"COMPUTE_NODE", "HW_NOT_INVENTED"}))
    setup.sync(wanted)
    assert setup.sync(wanted, refresh=True)[1] == ["tree", "ensure_traits"]


def test_conflicts_are_counted_as_events(setup):
    telemetry = Telemetry(ManualClock())
    synchroniser = Synchroniser(setup.api, setup.ownership, telemetry)
    synchroniser.sync(WANTED)
    setup.api.overwrite(ROOT, traits=["COMPUTE_NODE"])
    synchroniser.sync(tree(provider({"VCPU": record(4)}, {"COMPUTE_NODE"})))
    value = telemetry.metrics.registry.get_sample_value
    assert value("rtagent_placement_total", {"event": "conflict"}) == 1


def test_the_number_of_attempts_is_limited(setup):
    setup.sync()
    setup.api.contended = 100
    changed = tree(provider({"VCPU": record(4)}, {"COMPUTE_NODE"}))
    synced, requests = setup.sync(changed)
    assert [type(problem) for problem in synced.problems] == [PlacementConflict]
    assert requests.count("put_inventories") == ATTEMPTS
    setup.api.contended = 0
    assert setup.sync(changed)[0].problems == ()


def test_a_refused_part_does_not_stop_the_others(setup):
    setup.sync()
    setup.api.failures["put_traits"] = refused = PlacementError("no")
    child = provider(VCPUS, uuid=uid(2), name="child", parent=ROOT)
    synced, _ = setup.sync(tree(provider({"VCPU": record(4)}), child))
    assert synced.problems == (refused,)
    assert total(setup) == 4
    assert setup.api.shown(uid(2))["inventories"]


def test_unknown_traits_are_left_out_and_looked_up_once(setup):
    wanted = tree(provider(VCPUS, {"COMPUTE_NODE", "HW_NOT_INVENTED"}))
    synced, _ = setup.sync(wanted)
    assert (synced.problems, synced.unknown_traits) == ((), {"HW_NOT_INVENTED"})
    assert setup.shown["traits"] == ["COMPUTE_NODE"]
    synced, requests = setup.sync(wanted)
    assert (synced.unknown_traits, requests) == ({"HW_NOT_INVENTED"}, [])
    setup.synchroniser.forget()
    assert setup.sync(wanted)[1] == [*READ, "ensure_traits"]


# -- ownership ------------------------------------------------------------------------------------


def test_owned_contents_are_removed_after_a_restart(setup):
    setup.sync(tree(provider({**VCPUS, "CUSTOM_A": record(1)}, {"CUSTOM_A", "HW_CPU_X86_AVX"})))
    setup.restart()
    setup.sync(tree(provider(VCPUS)))
    assert setup.shown["traits"] == []
    assert set(setup.shown["inventories"]) == {"VCPU"}
    assert setup.ownership.of(ROOT) == contents({"VCPU"})


def test_ownership_is_recorded_before_the_request(setup):
    setup.api.failures["put_traits"] = PlacementUnavailable("the response was lost")
    setup.sync(tree(provider(VCPUS, {"CUSTOM_A"})))
    assert "CUSTOM_A" in setup.ownership.of(ROOT).traits


def test_contents_that_could_not_be_removed_remain_owned(setup):
    setup.sync(tree(provider(VCPUS, {"CUSTOM_A"})))
    setup.api.failures["put_traits"] = PlacementError("no")
    setup.sync(tree(provider(VCPUS)))
    del setup.api.failures["put_traits"]
    setup.restart()
    setup.sync(tree(provider(VCPUS)))
    assert setup.shown["traits"] == []


# -- names and uuids ------------------------------------------------------------------------------


def test_a_taken_name_is_reported_with_the_remedy(setup):
    setup.api.create_provider(uid(66), "cn1")
    (problem,) = setup.sync()[0].problems
    assert problem.kwargs["other_uuid"] == uid(66)
    for words in ("named cn1", uid(66), ROOT, f"resource provider delete {uid(66)}", "compute_id"):
        assert words in problem.message


def test_a_provider_with_our_uuid_and_another_name_is_left_alone(setup):
    setup.api.create_provider(ROOT, "other")
    (problem,) = setup.sync()[0].problems
    assert problem.kwargs["other_name"] == "other"
    assert f"resource provider set --name cn1 {ROOT}" in problem.message
    assert setup.shown["inventories"] == {}


def test_a_provider_created_concurrently_is_adopted(setup):
    class CreatedMeanwhile(MemoryPlacement):
        """Reports the provider as absent once, as before its creation."""

        late = True

        def provider(self, uuid):
            found, self.late = None if self.late else super().provider(uuid), False
            return found

    setup.api = CreatedMeanwhile()
    setup.api.create_provider(ROOT, "cn1")
    setup.restart()
    assert setup.sync()[0].problems == ()
    assert total(setup) == 8


# -- inventories in use ---------------------------------------------------------------------------


def in_use(setup):
    setup.sync(tree(provider({**VCPUS, "DISK_GB": record(100)}, {"COMPUTE_NODE"})))
    setup.api.allocate(ROOT, uid(9), {"DISK_GB": 10})


def test_an_inventory_in_use_is_drained_and_the_rest_is_synced(setup):
    in_use(setup)
    synced, _ = setup.sync(tree(provider({"VCPU": record(4)})))
    assert [problem.kwargs["code"] for problem in synced.problems] == ["placement.inventory.inuse"]
    assert total(setup) == 4
    assert setup.shown["traits"] == []
    disk = setup.shown["inventories"]["DISK_GB"]
    assert (disk["total"], disk["reserved"]) == (100, 100)


def test_an_inventory_without_allocations_is_removed_beside_one_in_use(setup):
    setup.sync(tree(provider({**VCPUS, "DISK_GB": record(100), "VGPU": record(2)})))
    setup.api.allocate(ROOT, uid(9), {"DISK_GB": 10, "VCPU": 1})
    synced, requests = setup.sync(tree(provider(VCPUS)))
    assert "in use" in synced.problems[0].message and "cn1" in synced.problems[0].message
    assert set(setup.shown["inventories"]) == {"VCPU", "DISK_GB"}
    assert requests.count("allocations") == 1
    assert "allocations" not in setup.sync(tree(provider(VCPUS)))[1]


def test_a_withdrawn_trait_is_not_owned_while_an_inventory_is_drained(setup):
    setup.sync(tree(provider({**VCPUS, "DISK_GB": record(100)}, {"CUSTOM_GOLD"})))
    setup.api.allocate(ROOT, uid(9), {"DISK_GB": 10})
    wanted = tree(provider(VCPUS))
    setup.sync(wanted)
    assert setup.shown["traits"] == []
    setup.api.overwrite(ROOT, traits=["CUSTOM_GOLD"])
    setup.sync(wanted)
    setup.api.allocate(ROOT, uid(9), {})
    assert setup.sync(wanted)[0].problems == ()
    assert setup.shown["traits"] == ["CUSTOM_GOLD"]
    assert set(setup.shown["inventories"]) == {"VCPU"}


# -- children -------------------------------------------------------------------------------------

CHILD = uid(2)
GPU = provider(
    {"CUSTOM_GPU": record(1)}, {"COMPUTE_MANAGED_PCI_DEVICE"}, uuid=CHILD, name="gpu", parent=ROOT
)
WITH_GPU = tree(provider(VCPUS, {"COMPUTE_NODE"}), GPU)


def allocated(setup):
    setup.sync(WITH_GPU)
    setup.api.allocate(CHILD, uid(9), {"CUSTOM_GPU": 1})


def test_a_custom_resource_class_is_created_once(setup):
    other = provider({"CUSTOM_GPU": record(1)}, uuid=uid(3), name="other", parent=ROOT)
    _, requests = setup.sync(tree(provider(VCPUS), GPU, other))
    assert requests.count("ensure_classes") == 1
    assert setup.api.shown(uid(3))["inventories"]


def test_an_obsolete_child_deleted_by_another_client_is_forgotten(setup):
    setup.sync(WITH_GPU)
    setup.restart()
    setup.api.delete(CHILD)
    assert setup.sync()[0].problems == ()
    assert setup.ownership.children(ROOT) == ()


def test_a_child_of_another_root_is_not_deleted(setup):
    setup.api.create_provider(uid(7), "other")
    theirs = replace(GPU, parent=uid(7), name="x")
    setup.synchroniser.sync(tree(provider(uuid=uid(7), name="other"), theirs))
    setup.sync()
    assert setup.api.shown(CHILD)["inventories"]


def test_a_child_in_use_is_drained_until_it_is_free(setup):
    allocated(setup)
    synced, requests = setup.sync()
    assert [p.kwargs["code"] for p in synced.problems] == ["placement.resource_provider.inuse"]
    assert requests[-1] == "put_inventories"
    gpus = setup.api.shown(CHILD)["inventories"]["CUSTOM_GPU"]
    assert (gpus["total"], gpus["reserved"]) == (1, 1)
    assert setup.sync()[1] == ["delete_provider"]

    setup.api.allocate(CHILD, uid(9), {})
    assert setup.sync() == (PassResult(revision=1), ["delete_provider"])


def test_a_parent_deleted_by_another_client_is_created_again(setup):
    setup.sync()
    setup.api.delete(ROOT)
    (problem,) = setup.sync(WITH_GPU)[0].problems
    assert "does not exist" in problem.message
    assert setup.sync(WITH_GPU)[0].problems == ()
    assert setup.api.shown(CHILD)["parent"] == ROOT


def test_a_taken_name_of_a_child_is_reported_with_the_remedy(setup):
    setup.sync()
    setup.api.create_provider(uid(66), "gpu", ROOT)
    (problem,) = setup.sync(WITH_GPU)[0].problems
    assert f"resource provider delete {uid(66)}" in problem.message
    assert "compute_id" not in problem.message
