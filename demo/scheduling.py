"""A scheduler chooses devices in Placement; the claim follows; what remains there is found."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

from rich.syntax import Syntax
from rich.table import Table

from demo.environment import MACHINE, Environment
from demo.resize import GUEST as GPU_GUEST
from demo.resize import NAME as GPU_NAME
from demo.screen import UnexpectedExit

GUEST, NAME = str(uuid.UUID(int=0xF0)), "render-1"
CLAIM = str(uuid.UUID(int=0xF1))
#: One GPU of the alias, as a request group of its own, named after the alias as Nova does it.
QUERY = {
    "resources": "VCPU:2,MEMORY_MB:4096,VGPU:1",
    "resources_gpu-0": "CUSTOM_PCI_10DE_13F1:1",
    "group_policy": "none",
}
FLAVOR = (
    "--vcpus 2 --memory 4096 --property resources:VGPU=1 --property pci_passthrough:alias=gpu:1"
)
PROVIDER_FILE = """\
meta:
  schema_version: '1.0'
providers:
  - identification:
      uuid: $COMPUTE_NODE
    inventories:
      additional:
        - CUSTOM_LICENSE:
            total: 3
"""
SHOWN = "-c uuid -c state -c pci -c resources"


def scheduling(demo: Environment) -> None:
    """Play the chapters."""
    _orphans(demo)
    demo.chapter("A virtual GPU and a GPU are scheduled through Placement; the claim follows")
    names = _names(demo)
    candidate = _choose(demo, names)
    allocated = {each: part["resources"] for each, part in candidate["allocations"].items()}
    _allocate(demo, allocated)
    options = [f"--allocation rp={each},{_equals(part)}" for each, part in allocated.items()]
    gpu = candidate["mappings"]["_gpu-0"][0]
    options.append(f"--provider-mapping gpu-0={gpu}")
    demo.run(
        f"claim create --instance {GUEST} --name {NAME} {FLAVOR} --operation-id {CLAIM}"
        f" {' '.join(options)} {SHOWN}"
    )
    demo.say("The same flavor with one more virtual GPU than was allocated is refused:")
    more = FLAVOR.replace("VGPU=1", "VGPU=2")
    other = f"--instance {uuid.UUID(int=0xF2)} --name render-2"
    demo.run(f"claim test {other} {more} {' '.join(options)}", expect=2)


def provider_file(demo: Environment) -> None:
    """Play the chapter."""
    demo.chapter("A provider file adds an inventory; without the file it is withdrawn")
    file = demo.provider_files / "licenses.yaml"
    file.write_text(PROVIDER_FILE)
    demo.console.print(Syntax(PROVIDER_FILE, "yaml", background_color="default"))
    demo.say(f"{file.name} is in the directory provider_config_location. The agent gets SIGHUP.")
    demo.daemon.reload()
    license_ = _until(demo, lambda classes: "CUSTOM_LICENSE" in classes)["CUSTOM_LICENSE"]
    demo.say(f"Placement has CUSTOM_LICENSE: total {license_['total']}.")
    licensed = "--vcpus 1 --memory 1024 --property resources:CUSTOM_LICENSE"
    other = f"--instance {uuid.UUID(int=0xF3)} --name licensed-1"
    demo.run(f"claim test {other} {licensed}=2 -c quantities")
    demo.run(f"claim test {other} {licensed}=4", expect=3)
    file.unlink()
    demo.daemon.reload()
    _until(demo, lambda classes: "CUSTOM_LICENSE" not in classes)
    demo.say(f"{file.name} is removed, and after SIGHUP Placement has no CUSTOM_LICENSE any more.")


def _orphans(demo: Environment) -> None:
    demo.chapter("The allocation of a deleted guest is found and removed")
    demo.say(
        f"The agent had written the GPUs of {GPU_NAME} to Placement. {GPU_NAME} was deleted, but"
        " nobody has deleted its allocation yet:"
    )
    demo.run("placement orphans -c consumer -c provider -c resources -c reason")
    demo.run(f"placement orphans delete {GPU_GUEST}")
    demo.run("placement orphans")


def _until(demo: Environment, true: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Wait until it is true of the inventories of the host's root provider, and return them."""
    path = f"/resource_providers/{demo.ask('node show')['uuid']}/inventories"
    for _ in range(300):
        found: dict[str, Any] = demo.placement.client().get(path).json()["inventories"]
        if true(found):
            return found
        time.sleep(0.1)
    raise UnexpectedExit("the agent did not update Placement")


def _names(demo: Environment) -> dict[str, str]:
    """Return the names of the host's providers, by uuid; those of children without its own."""
    root = demo.ask("node show")["uuid"]
    found = demo.placement.client().get("/resource_providers", params={"in_tree": root}).json()
    return {
        each["uuid"]: each["name"].removeprefix(f"{MACHINE.hostname}_")
        for each in found["resource_providers"]
    }


def _choose(demo: Environment, names: dict[str, str]) -> Any:
    """Ask Placement for candidates, print them, and return the last, which the agent alone would
    not have chosen.
    """
    query = "&".join(f"{name}={value}" for name, value in QUERY.items())
    demo.console.print(
        f"> GET /allocation_candidates?{query}", style="bold", highlight=False, soft_wrap=True
    )
    answer = demo.placement.client("1.39").get("/allocation_candidates", params=QUERY)
    found = sorted(answer.json()["allocation_requests"], key=lambda each: _devices(each, names))
    if not found:
        raise UnexpectedExit("Placement has no candidate")
    table = Table("candidate", "from the host", "virtual GPU", "GPU")
    for number, each in enumerate(found, start=1):
        table.add_row(str(number), *_devices(each, names))
    demo.console.print(table)
    demo.say(f"The scheduler takes candidate {len(found)} and writes its allocations.")
    return found[-1]


def _devices(candidate: Any, names: dict[str, str]) -> tuple[str, str, str]:
    """Return the quantities of the root, and the providers of the virtual GPU and of the GPU."""
    root, vgpu, gpu = "", "", ""
    for each, part in candidate["allocations"].items():
        if "VGPU" in part["resources"]:
            vgpu = names[each]
        elif "VCPU" in part["resources"]:
            root = _equals(part["resources"])
        else:
            gpu = names[each]
    return root, vgpu, gpu


def _allocate(demo: Environment, allocated: dict[str, dict[str, int]]) -> None:
    body = {
        "allocations": {each: {"resources": part} for each, part in allocated.items()},
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
        "project_id": "demo",
        "user_id": "demo",
    }
    path = f"/allocations/{GUEST}"
    answer = demo.placement.client("1.39").put(path, json=body)
    if answer.status_code != 204:
        raise UnexpectedExit(f"PUT {path}: {answer.status_code} {answer.text}")


def _equals(resources: dict[str, int]) -> str:
    return ",".join(f"{name}={number}" for name, number in sorted(resources.items()))
