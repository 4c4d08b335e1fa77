"""The chapters: audit, claim, refusal, devices, scheduling, foreign domain, kill -9, Placement."""

from __future__ import annotations

import textwrap
import time
import uuid
from typing import Any

from rich.table import Table
from rich.tree import Tree

from demo.environment import Environment
from demo.resize import GUEST as GPU_GUEST
from demo.resize import NAME as GPU_NAME
from demo.resize import resize
from demo.scheduling import provider_file, scheduling
from demo.screen import UnexpectedExit
from rtagent.virt.simulate import domain_xml

GUEST, FOREIGN = str(uuid.UUID(int=0xA)), str(uuid.UUID(int=0xB))
BUILD = str(uuid.UUID(int=0xC))
#: The second GPU, on the other socket.
GPU = "0000:88:00.0"
LIST = "claim list -c uuid -c display_name -c state -c suspect -c vcpus -c memory_mb"
AUDIT = "audit run -f value -c summary"
GPU_BUILD = str(uuid.UUID(int=0xE))
SMALL = "--vcpus 2 --memory 4096"
ASKED = f"--instance {GUEST} --name web-1 --vcpus 4 --memory 8192 --root-gb 20"


def play(demo: Environment) -> None:
    """Play all chapters in order."""
    for chapter in (audit, claim, refusal, devices):
        chapter(demo)
    resize(demo, GPU_BUILD)
    scheduling(demo)
    provider_file(demo)
    for chapter in (foreign, crash, disappearance, placement):
        chapter(demo)


def audit(demo: Environment) -> None:
    demo.chapter("The agent has audited its host")
    demo.run("node show")


def claim(demo: Environment) -> None:
    demo.chapter("A claim is created and activated, then its guest is started")
    shown = "-c uuid -c state -c vcpus -c memory_mb -c disk_mb -c expires_at"
    demo.run(f"claim create {ASKED} --operation-id {BUILD} {shown}")
    demo.run(f"claim activate {BUILD} -c state")
    add_domain(demo, GUEST, "web-1", vcpus=4, memory_mb=8192)
    demo.run(AUDIT)
    demo.run(LIST)


def refusal(demo: Environment) -> None:
    demo.chapter(
        "A refusal names the resource, where, the quantity requested and the quantity available"
    )
    too_much = f"--instance {FOREIGN} --vcpus 64 --memory 60000 --root-gb 1"
    demo.run(f"claim test {too_much}", expect=3)


def devices(demo: Environment) -> None:
    demo.chapter("A guest gets a GPU; a request for more GPUs than are left is refused")
    alias = "--property pci_passthrough:alias=gpu"
    first = f"--instance {GPU_GUEST} --name {GPU_NAME} {SMALL} {alias}:1"
    demo.run(f"claim create {first} --operation-id {GPU_BUILD} -c uuid -c state -c pci")
    demo.run(f"claim test --instance {FOREIGN} --name ml-2 {SMALL} {alias}:2", expect=3)
    demo.say("A faulty device is quarantined until it is cleared:")
    demo.run(f"pci quarantine {GPU} --reason 'it overheats'")
    columns = ("address", "product_id", "dev_type", "numa_node", "status", "name", "reason")
    demo.run(f"pci list {' '.join(f'-c {each}' for each in columns)}")
    demo.run(f"pci clear {GPU}")


def foreign(demo: Environment) -> None:
    demo.chapter(
        "A domain without a claim is found and counted, so that its resources are not granted"
    )
    add_domain(demo, FOREIGN, "foreign-1", vcpus=2, memory_mb=2048)
    demo.run(AUDIT)
    demo.run("orphan list")


def crash(demo: Environment) -> None:
    demo.chapter("kill -9: nothing is lost")
    demo.daemon.kill()
    demo.say("rtagentd was killed.")
    demo.run(f"--offline {LIST}")
    demo.start_agent()
    demo.run(LIST)
    demo.say(
        "The caller did not receive the answer and repeats the call with the same operation id:"
    )
    demo.run(f"claim create {ASKED} --operation-id {BUILD} -f value -c uuid -c state")


def disappearance(demo: Environment) -> None:
    demo.chapter("A guest that disappears keeps its claim until the claim is released")
    demo.run(f"host simulate edit {demo.host_file} --remove-domain {GUEST}")
    demo.run(AUDIT)
    demo.run(f"claim show {BUILD} -c state -c suspect -c vcpus -c memory_mb")
    demo.run(f"claim release {BUILD}")
    demo.run(LIST)
    demo.run(f"claim history {BUILD} -c at -c action -c before -c after -c actor -c reason")


def placement(demo: Environment) -> None:
    demo.chapter("What Placement has")
    node_uuid = demo.ask("node show")["uuid"]
    provider = until_mirrored(demo, node_uuid)
    tree = Tree(f"{provider['name']}  {provider['uuid']}  generation {provider['generation']}")
    path = f"/resource_providers/{node_uuid}"
    table = Table("class", "total", "reserved", "ratio", "max unit")
    inventories = demo.placement.client().get(f"{path}/inventories").json()["inventories"]
    for name, inventory in sorted(inventories.items()):
        numbers = ("total", "reserved", "allocation_ratio", "max_unit")
        table.add_row(name, *(str(inventory[number]) for number in numbers))
    tree.add(table)
    traits = demo.placement.client().get(f"{path}/traits").json()["traits"]
    tree.add("\n".join(textwrap.wrap(", ".join(sorted(traits)), 90)))
    demo.console.print(tree)
    demo.say("The CPUs and memory of the foreign domain are in `reserved`.")


def until_mirrored(demo: Environment, node_uuid: str) -> dict[str, Any]:
    """Return the provider once the foreign domain's memory is published."""
    client = demo.placement.client()
    for _ in range(300):
        answer = client.get(f"/resource_providers/{node_uuid}/inventories")
        memory = answer.json().get("inventories", {}).get("MEMORY_MB", {})
        if memory.get("reserved", 0) >= 512 + 2048:
            return client.get(f"/resource_providers/{node_uuid}").json()
        time.sleep(0.1)
    raise UnexpectedExit("the agent did not update Placement")


def add_domain(demo: Environment, domain_uuid: str, name: str, vcpus: int, memory_mb: int) -> None:
    """Start a guest on the simulated host."""
    document = demo.directory / f"{name}.xml"
    document.write_text(domain_xml(domain_uuid, vcpus=vcpus, memory_mb=memory_mb, name=name))
    demo.run(f"host simulate edit {demo.host_file} --add-domain {document}")
