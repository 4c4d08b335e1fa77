"""Errors about flavors and images name properties that were set, with their values."""

from hypothesis import given
from hypothesis import strategies as st

from rtagent.allocation.requirements import from_request
from rtagent.errors import InvalidFlavor, InvalidPciRequest
from rtagent.model.policy import Policy
from rtagent.model.request import BuildRequest, Flavor, Image, Instance
from tests.support.hosts import uid

NUMBERS = ["", " ", "0", "1", "2", "4", "many", "1024", "4096"]
CPU_LISTS = ["", "0", "^0", "0-1", "0-3", "2-3", "^0-3", "1-", "9"]
#: Values of each extra spec, valid ones and others.
SPECS = {
    "hw:cpu_policy": ["", "shared", "dedicated", "mixed", "some"],
    "hw:cpu_thread_policy": ["", "prefer", "isolate", "require", "some"],
    "hw:emulator_threads_policy": ["", "share", "isolate", "some"],
    "hw:cpu_realtime": ["", "yes", "no", "some"],
    "hw:locked_memory": ["", "yes", "no", "some"],
    "hw:mem_page_size": ["", "small", "large", "any", "2MB", "2M"],
    "hw:pci_numa_affinity_policy": ["", "required", "socket", "some"],
    "hw:pmem": ["", ",", "A", "A,B", "A B"],
    "pci_passthrough:alias": ["", "gpu:1", "gpu", "gpu:0"],
    "resources:VCPU": NUMBERS,
    "resources:PCPU": NUMBERS,
    "resources2:PCPU": NUMBERS,
    "resources:VGPU": NUMBERS,
    "trait:HW_CPU_HYPERTHREADING": ["required", "forbidden"],
    **dict.fromkeys(["hw:cpu_realtime_mask", "hw:cpu_dedicated_mask"], CPU_LISTS),
    **dict.fromkeys([f"hw:numa_cpus.{cell}" for cell in range(3)], CPU_LISTS),
    **dict.fromkeys([f"hw:numa_mem.{cell}" for cell in range(3)], NUMBERS),
    "hw:numa_nodes": NUMBERS,
    **{
        f"hw:cpu_{limit}{part}": NUMBERS
        for limit in ("", "max_")
        for part in ("sockets", "cores", "threads")
    },
}
#: The same as image properties.
PROPERTIES = {name.replace("hw:", "hw_"): values for name, values in SPECS.items()}


def some_of(values):
    return st.lists(st.sampled_from(sorted(values)), max_size=6, unique=True).flatmap(
        lambda names: st.fixed_dictionaries({name: st.sampled_from(values[name]) for name in names})
    )


@given(some_of(SPECS), some_of(PROPERTIES), st.sampled_from([1, 2, 4]))
def test_error_names_only_what_was_set(specs, properties, vcpus):
    flavor = Flavor(vcpus=vcpus, memory_mb=4096, extra_specs=specs)
    instance = Instance(uuid=uid(), flavor=flavor, image=Image(properties=properties))
    sizes = {"flavor.vcpus": str(vcpus), "flavor.memory_mb": "4096"}
    was_set = {*specs.items(), *properties.items(), *sizes.items()}
    try:
        from_request(BuildRequest(instance=instance), Policy())
    except InvalidFlavor as error:
        named = error.kwargs["properties"]
        assert named and named.items() <= was_set
        assert error.kwargs["rule"]
    except InvalidPciRequest as error:
        assert error.kwargs["where"] in specs
