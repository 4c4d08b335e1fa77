"""How a guest is divided into cells."""

import pytest

from rtagent.errors import FlavorImageConflict, PropertyConflict
from rtagent.numa.guest_cells import GuestCell
from rtagent.numa.requirements import numa_requirements


def derived(specs, image=None):
    return numa_requirements(4, 4096, specs, image or {})


def test_cells_are_of_equal_size_by_default():
    assert derived({"hw:numa_nodes": "2", "hw:cpu_policy": "dedicated"}).cells == (
        GuestCell(cpuset=frozenset(), pcpuset=frozenset({0, 1}), memory=2048),
        GuestCell(cpuset=frozenset(), pcpuset=frozenset({2, 3}), memory=2048),
    )


@pytest.mark.parametrize("side", ["flavor", "image"])
def test_flavor_or_image_describes_each_cell(side):
    flavor = {
        "hw:numa_cpus.0": "0-2",
        "hw:numa_mem.0": "3072",
        "hw:numa_cpus.1": "3",
        "hw:numa_mem.1": "1024",
    }
    image = {name.replace(":", "_"): value for name, value in flavor.items()}
    nodes = {"hw:numa_nodes": "2", "hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "1-2"}
    guest = derived(
        {**nodes, **(flavor if side == "flavor" else {})}, image if side == "image" else {}
    )
    assert guest.cells == (
        GuestCell(cpuset=frozenset({0}), pcpuset=frozenset({1, 2}), memory=3072),
        GuestCell(cpuset=frozenset({3}), pcpuset=frozenset(), memory=1024),
    )


def test_image_must_not_set_the_number_of_cells_that_the_flavor_sets():
    with pytest.raises(FlavorImageConflict) as refused:
        derived({"hw:numa_nodes": "2"}, {"hw_numa_nodes": "2"})
    named = refused.value.kwargs["properties"]
    assert named == {"hw:numa_nodes": "2", "hw_numa_nodes": "2"}


@pytest.mark.parametrize("name", ["hw:numa_cpus.0", "hw:numa_mem.0"])
def test_image_must_not_describe_cells_that_the_flavor_describes(name):
    cells = {"hw:numa_cpus.0": "0-3", "hw:numa_mem.0": "4096"}
    image = {name.replace(":", "_"): cells[name]}
    with pytest.raises(FlavorImageConflict) as refused:
        derived({"hw:numa_nodes": "1", **cells}, image)
    assert refused.value.kwargs["properties"] == {name: cells[name], **image}


CELLS = {
    "hw:numa_cpus.0": "0-2",
    "hw:numa_mem.0": "3072",
    "hw:numa_cpus.1": "3",
    "hw:numa_mem.1": "1024",
}


@pytest.mark.parametrize("empty", ["", "  "])
@pytest.mark.parametrize("name", CELLS)
def test_empty_cpus_or_memory_describe_a_cell_incompletely(name, empty):
    specs = {"hw:numa_nodes": "2", **CELLS, name: empty}
    image = {key.replace(":", "_"): value for key, value in specs.items()}
    for flavor_specs, properties in ((specs, {}), ({}, image)):
        with pytest.raises(PropertyConflict) as refused:
            derived(flavor_specs, properties)
        assert refused.value.kwargs["properties"] == {**flavor_specs, **properties}


@pytest.mark.parametrize("name", ["hw:numa_cpus.0", "hw:numa_mem.0"])
def test_empty_description_is_not_an_unset_one(name):
    with pytest.raises(PropertyConflict) as refused:
        derived({"hw:numa_nodes": "4", name: ""})
    assert refused.value.kwargs["properties"] == {"hw:numa_nodes": "4", name: ""}


def test_image_must_not_describe_cells_that_the_flavor_describes_with_an_empty_value():
    with pytest.raises(FlavorImageConflict):
        derived({"hw:numa_nodes": "1", "hw:numa_cpus.0": ""}, {"hw_numa_cpus.0": "0-3"})
