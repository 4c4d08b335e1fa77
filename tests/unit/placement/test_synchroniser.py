"""One pass over a tree, against other writers, refusals and outages."""

import pytest
from msgspec.structs import replace

from rtagent.errors import PlacementConflict, PlacementError, PlacementUnavailable
from rtagent.placement.memory import MemoryPlacement
from rtagent.placement.ownership import MemoryOwnership, OwnershipFile
from rtagent.placement.synchroniser import ATTEMPTS, Synced, Synchroniser
from tests.builders import uid
from tests.unit.placement.values import ROOT, contents, provider, record, tree

VCPUS = {"VCPU": record(8)}
WANTED = tree(provider(VCPUS, {"COMPUTE_NODE"}))
READ = ["provider", "traits", "inventories"]


class World:
    """A synchroniser, Placement, and what a restart keeps."""

    def __init__(self):
        self.api, self.ownership = MemoryPlacement(), MemoryOwnership()
        self.restart()

    def restart(self):
        self.synchroniser = Synchroniser(self.api, self.ownership)

    def sync(self, wanted=WANTED):
        """What came of it, and the requests that it took."""
        self.api.requests.clear()
        return self.synchroniser.sync(wanted), list(self.api.requests)

    @property
    def shown(self):
        return self.api.shown(ROOT)


@pytest.fixture
def world():
    return World()


def total(world, resource="VCPU"):
    return world.shown["inventories"][resource]["total"]


def test_the_first_push(world):
    synced, requests = world.sync()
    assert (synced.revision, synced.problems) == (1, ())
    assert requests == [
        "provider",
        "ensure_traits",
        "create_provider",
        "put_traits",
        "put_inventories",
    ]
    assert world.shown["traits"] == ["COMPUTE_NODE"]
    assert total(world) == 8


def test_a_second_push_asks_nothing(world):
    world.sync()
    assert world.sync()[1] == []


def test_one_change_is_one_request(world):
    world.sync()
    assert world.sync(tree(provider({"VCPU": record(4)}, {"COMPUTE_NODE"})))[1] == [
        "put_inventories"
    ]
    assert total(world) == 4


def test_forgotten_it_is_read_and_compared(world):
    world.sync()
    world.synchroniser.forget()
    assert world.sync()[1] == READ
    world.api.meddle(ROOT, inventories={})
    world.synchroniser.forget()
    assert world.sync()[1] == [*READ, "put_inventories"]


def test_children_come_after_their_parent(world):
    child = provider({"CUSTOM_GPU": record(1)}, uuid=uid(2), name="child", parent=ROOT)
    synced, _ = world.sync(tree(provider(VCPUS), child))
    assert synced.problems == ()
    assert world.api.shown(uid(2))["parent"] == ROOT


def test_a_conflict_is_read_again_and_written(world):
    world.sync()
    world.api.meddle(ROOT, traits=["COMPUTE_NODE", "CUSTOM_GOLD"])
    synced, requests = world.sync(tree(provider({"VCPU": record(4)}, {"COMPUTE_NODE"})))
    assert synced.problems == ()
    assert requests == ["put_inventories", *READ, "put_inventories"]
    assert set(world.shown["traits"]) == {"COMPUTE_NODE", "CUSTOM_GOLD"}


class Gilding(MemoryPlacement):
    """Another writer sets a trait after the traits were read, once."""

    done = False

    def inventories(self, uuid):
        if not self.done:
            self.done = True
            self.meddle(uuid, traits=["CUSTOM_GOLD"])
        return super().inventories(uuid)


@pytest.mark.parametrize("traits_first", [True, False])
def test_what_is_set_between_the_two_readings_is_not_lost(world, traits_first):
    world.api = Gilding()
    world.api.create_provider(ROOT, "cn1")
    world.restart()
    if not traits_first:
        world.sync(tree(provider(VCPUS)))
    assert world.sync()[0].problems == ()
    assert set(world.shown["traits"]) == {"COMPUTE_NODE", "CUSTOM_GOLD"}


def test_an_allocation_between_the_two_readings_does_not_matter(world):
    class Busy(MemoryPlacement):
        """A scheduler is always faster than the second reading."""

        def inventories(self, uuid):
            self.meddle(uuid)
            return super().inventories(uuid)

    world.api = Busy()
    world.api.create_provider(ROOT, "cn1")
    world.restart()
    synced, requests = world.sync(tree(provider(VCPUS)))
    assert (synced.problems, requests) == ((), [*READ, "put_inventories"])
    assert world.sync(tree(provider({"VCPU": record(4)})))[1] == ["put_inventories"]


def test_attempts_are_bounded(world):
    world.sync()
    world.api.contended = 100
    changed = tree(provider({"VCPU": record(4)}, {"COMPUTE_NODE"}))
    synced, requests = world.sync(changed)
    assert [type(problem) for problem in synced.problems] == [PlacementConflict]
    assert requests.count("put_inventories") == ATTEMPTS
    world.api.contended = 0
    assert world.sync(changed)[0].problems == ()


def test_a_provider_deleted_by_others_is_made_again(world):
    world.sync()
    world.api.delete(ROOT)
    assert world.sync(tree(provider({"VCPU": record(4)}, {"COMPUTE_NODE"})))[0].problems == ()
    assert total(world) == 4
    assert world.shown["traits"] == ["COMPUTE_NODE"]


def test_an_outage_is_an_answer_and_all_is_read_after_it(world):
    world.sync()
    world.api.failure = PlacementUnavailable("gone")
    changed = tree(provider({"VCPU": record(4)}, {"COMPUTE_NODE"}))
    synced, requests = world.sync(changed)
    assert synced.problems == (world.api.failure,)
    assert requests == ["put_inventories"]  # there is no point in trying more
    world.api.failure = None
    assert world.sync(changed)[1] == [*READ, "put_inventories"]


def test_a_part_that_is_refused_does_not_hold_up_the_others(world):
    world.sync()
    world.api.failures["put_traits"] = refused = PlacementError("no")
    child = provider(VCPUS, uuid=uid(2), name="child", parent=ROOT)
    synced, _ = world.sync(tree(provider({"VCPU": record(4)}), child))
    assert synced.problems == (refused,)
    assert total(world) == 4
    assert world.api.shown(uid(2))["inventories"]


def test_a_part_that_was_refused_is_tried_again(world):
    world.sync()
    world.api.failures["put_inventories"] = PlacementError("no")
    changed = tree(provider({"VCPU": record(4)}, {"COMPUTE_NODE"}))
    world.sync(changed)
    del world.api.failures["put_inventories"]
    assert world.sync(changed)[1] == ["put_inventories"]


def test_traits_that_placement_does_not_know_are_left_out_and_asked_for_once(world):
    wanted = tree(provider(VCPUS, {"COMPUTE_NODE", "HW_NOT_INVENTED"}))
    synced, _ = world.sync(wanted)
    assert (synced.problems, synced.unknown_traits) == ((), {"HW_NOT_INVENTED"})
    assert world.shown["traits"] == ["COMPUTE_NODE"]
    synced, requests = world.sync(wanted)
    assert (synced.unknown_traits, requests) == ({"HW_NOT_INVENTED"}, [])
    world.synchroniser.forget()
    assert world.sync(wanted)[1] == [*READ, "ensure_traits"]


# -- whose is what --------------------------------------------------------------------------------


def test_what_others_set_is_kept(world):
    world.sync()
    world.api.meddle(
        ROOT,
        traits=["COMPUTE_NODE", "CUSTOM_GOLD", "HW_CPU_X86_AVX"],
        inventories={"CUSTOM_FPGA": record_document(2)},
    )
    world.synchroniser.forget()
    assert world.sync(tree(provider(VCPUS)))[0].problems == ()
    assert set(world.shown["traits"]) == {"CUSTOM_GOLD", "HW_CPU_X86_AVX"}
    assert set(world.shown["inventories"]) == {"VCPU", "CUSTOM_FPGA"}


def test_what_is_ours_is_withdrawn_after_a_restart_too(world):
    world.sync(tree(provider({**VCPUS, "CUSTOM_A": record(1)}, {"CUSTOM_A", "HW_CPU_X86_AVX"})))
    world.restart()
    world.sync(tree(provider(VCPUS)))
    assert world.shown["traits"] == []
    assert set(world.shown["inventories"]) == {"VCPU"}
    assert world.ownership.of(ROOT) == contents({"VCPU"})


def test_what_is_ours_is_remembered_before_it_is_sent(world):
    world.api.failures["put_traits"] = PlacementUnavailable("the answer was lost")
    world.sync(tree(provider(VCPUS, {"CUSTOM_A"})))
    assert "CUSTOM_A" in world.ownership.of(ROOT).traits


def test_what_could_not_be_withdrawn_stays_ours(world):
    world.sync(tree(provider(VCPUS, {"CUSTOM_A"})))
    world.api.failures["put_traits"] = PlacementError("no")
    world.sync(tree(provider(VCPUS)))
    del world.api.failures["put_traits"]
    world.restart()
    world.sync(tree(provider(VCPUS)))
    assert world.shown["traits"] == []


# -- names and uuids ------------------------------------------------------------------------------


def test_a_name_that_another_provider_has_is_told_with_the_remedy(world):
    world.api.create_provider(uid(66), "cn1")
    (problem,) = world.sync()[0].problems
    assert problem.kwargs["other_uuid"] == uid(66)
    for words in ("named cn1", uid(66), ROOT, f"resource provider delete {uid(66)}", "compute_id"):
        assert words in problem.message


def test_when_the_other_is_gone_all_is_well(world):
    world.api.create_provider(uid(66), "cn1")
    world.sync()
    world.api.delete(uid(66))
    assert world.sync()[0].problems == ()


def test_our_uuid_under_another_name_is_not_touched(world):
    world.api.create_provider(ROOT, "other")
    (problem,) = world.sync()[0].problems
    assert problem.kwargs["other_name"] == "other"
    assert f"resource provider set --name cn1 {ROOT}" in problem.message
    assert world.shown["inventories"] == {}


def test_a_provider_made_by_another_in_the_same_moment_is_taken_up(world):
    class Late(MemoryPlacement):
        """Says once that our provider is not there, as it was a moment ago."""

        late = True

        def provider(self, uuid):
            found, self.late = None if self.late else super().provider(uuid), False
            return found

    world.api = Late()
    world.api.create_provider(ROOT, "cn1")
    world.restart()
    assert world.sync()[0].problems == ()
    assert total(world) == 8


# -- inventories in use ---------------------------------------------------------------------------


def in_use(world):
    world.sync(tree(provider({**VCPUS, "DISK_GB": record(100)}, {"COMPUTE_NODE"})))
    world.api.allocate(ROOT, uid(9), {"DISK_GB": 10})


def test_an_inventory_in_use_is_drained_and_the_rest_is_synced(world):
    in_use(world)
    synced, _ = world.sync(tree(provider({"VCPU": record(4)})))
    assert [problem.kwargs["code"] for problem in synced.problems] == ["placement.inventory.inuse"]
    assert total(world) == 4
    assert world.shown["traits"] == []
    disk = world.shown["inventories"]["DISK_GB"]
    assert (disk["total"], disk["reserved"]) == (100, 100)


def test_it_goes_when_it_is_not_used_any_more(world):
    in_use(world)
    wanted = tree(provider({"VCPU": record(4)}))
    world.sync(wanted)
    assert world.sync(wanted)[1] == ["put_inventories"]
    world.api.allocate(ROOT, uid(9), {})
    assert world.sync(wanted)[0].problems == ()
    assert set(world.shown["inventories"]) == {"VCPU"}


def test_an_inventory_in_use_may_shrink(world):
    in_use(world)
    smaller = tree(provider({**VCPUS, "DISK_GB": record(5)}, {"COMPUTE_NODE"}))
    assert world.sync(smaller)[0].problems == ()
    assert total(world, "DISK_GB") == 5


def record_document(number):
    return {
        "total": number,
        "reserved": 0,
        "min_unit": 1,
        "max_unit": number,
        "step_size": 1,
        "allocation_ratio": 1.0,
    }


# -- children -------------------------------------------------------------------------------------

CHILD = uid(2)
GPU = provider(
    {"CUSTOM_GPU": record(1)}, {"COMPUTE_MANAGED_PCI_DEVICE"}, uuid=CHILD, name="gpu", parent=ROOT
)
WITH_GPU = tree(provider(VCPUS, {"COMPUTE_NODE"}), GPU)


def allocated(world):
    world.sync(WITH_GPU)
    world.api.allocate(CHILD, uid(9), {"CUSTOM_GPU": 1})


def test_a_class_of_our_own_is_made_once(world):
    other = provider({"CUSTOM_GPU": record(1)}, uuid=uid(3), name="other", parent=ROOT)
    _, requests = world.sync(tree(provider(VCPUS), GPU, other))
    assert requests.count("ensure_classes") == 1
    assert world.api.shown(uid(3))["inventories"]


def test_a_child_that_is_gone_is_deleted_by_one_request(world):
    world.sync(WITH_GPU)
    assert world.sync() == (Synced(revision=1), ["delete_provider"])
    assert world.api.provider(CHILD) is None
    assert world.sync()[1] == []


def test_a_child_that_comes_back_is_made_again(world):
    world.sync(WITH_GPU)
    world.sync()
    assert world.sync(WITH_GPU)[0].problems == ()
    assert world.api.shown(CHILD)["inventories"]["CUSTOM_GPU"]["total"] == 1


def test_it_is_deleted_after_a_restart_too(world):
    world.sync(WITH_GPU)
    world.restart()
    assert world.sync()[0].problems == ()
    assert world.api.provider(CHILD) is None


def test_one_that_others_have_deleted_is_forgotten(world):
    world.sync(WITH_GPU)
    world.restart()
    world.api.delete(CHILD)
    assert world.sync()[0].problems == ()
    assert world.ownership.children(ROOT) == ()


def test_a_child_of_another_root_is_not_ours_to_delete(world):
    world.api.create_provider(uid(7), "other")
    world.synchroniser.sync(
        tree(provider(uuid=uid(7), name="other"), replace(GPU, parent=uid(7), name="x"))
    )
    world.sync()
    assert world.api.shown(CHILD)["inventories"]


def test_a_child_in_use_is_drained_until_it_is_free(world):
    allocated(world)
    synced, requests = world.sync()
    assert [p.kwargs["code"] for p in synced.problems] == ["placement.resource_provider.inuse"]
    assert requests[-1] == "put_inventories"
    gpus = world.api.shown(CHILD)["inventories"]["CUSTOM_GPU"]
    assert (gpus["total"], gpus["reserved"]) == (1, 1)
    assert world.sync()[1] == ["delete_provider"]

    world.api.allocate(CHILD, uid(9), {})
    assert world.sync() == (Synced(revision=1), ["delete_provider"])


def test_a_child_in_use_that_comes_back_is_offered_again(world):
    allocated(world)
    world.sync()
    assert world.sync(WITH_GPU)[0].problems == ()
    assert world.api.shown(CHILD)["inventories"]["CUSTOM_GPU"]["reserved"] == 0


def test_what_others_set_on_a_child_outlives_it(world):
    world.sync(WITH_GPU)
    world.api.meddle(CHILD, traits=["COMPUTE_MANAGED_PCI_DEVICE", "CUSTOM_GOLD"])
    world.restart()
    assert world.sync()[0].problems == ()
    left = world.api.shown(CHILD)
    assert (left["traits"], left["inventories"]) == (["CUSTOM_GOLD"], {})
    assert world.sync()[1] == []


def test_a_parent_that_others_have_deleted_is_made_again(world):
    world.sync()
    world.api.delete(ROOT)
    (problem,) = world.sync(WITH_GPU)[0].problems
    assert "does not exist" in problem.message
    assert world.sync(WITH_GPU)[0].problems == ()
    assert world.api.shown(CHILD)["parent"] == ROOT


def test_what_is_ours_and_cannot_be_read_is_one_problem(world, tmp_path):
    (tmp_path / "placement.json").write_text("{broken")
    world.ownership = OwnershipFile(tmp_path)
    world.restart()
    (problem,) = world.sync(WITH_GPU)[0].problems
    assert "placement.json cannot be read" in problem.message


def test_a_name_that_another_child_has_is_told_with_the_remedy(world):
    world.sync()
    world.api.create_provider(uid(66), "gpu", ROOT)
    (problem,) = world.sync(WITH_GPU)[0].problems
    assert f"resource provider delete {uid(66)}" in problem.message
    assert "compute_id" not in problem.message
