"""The story: audits, claims, refusals, a stranger, a power cut, and what Placement has."""

from __future__ import annotations

import textwrap
import time
import uuid
from typing import Any

from rich.table import Table
from rich.tree import Tree

from demo.resize import GUEST as GPU_GUEST
from demo.resize import NAME as GPU_NAME
from demo.resize import resize
from demo.stage import Stage, Unexpected
from rtagent.virt.simulate import domain_xml

GUEST, STRANGER = str(uuid.UUID(int=0xA)), str(uuid.UUID(int=0xB))
BUILD = str(uuid.UUID(int=0xC))
#: The second one: on the other socket.
GPU = "0000:88:00.0"
LIST = "claim list -c uuid -c display_name -c state -c suspect -c vcpus -c memory_mb"
AUDIT = "audit run -f value -c summary"
GPU_BUILD = str(uuid.UUID(int=0xE))
SMALL = "--vcpus 2 --memory 4096"
ASKED = f"--instance {GUEST} --name web-1 --vcpus 4 --memory 8192 --root-gb 20"


def play(stage: Stage) -> None:
    """All chapters in their order."""
    for chapter in (audit, claim, refusal, devices):
        chapter(stage)
    resize(stage, GPU_BUILD)
    for chapter in (stranger, power_cut, disappearance, placement):
        chapter(stage)


def audit(stage: Stage) -> None:
    stage.chapter("The agent has looked at its host")
    stage.run("node show")


def claim(stage: Stage) -> None:
    stage.chapter("A claim: asked, held, activated, and then its guest is started")
    shown = "-c uuid -c state -c vcpus -c memory_mb -c disk_mb -c expires_at"
    stage.run(f"claim create {ASKED} --operation-id {BUILD} {shown}")
    stage.run(f"claim activate {BUILD} -c state")
    add_domain(stage, GUEST, "web-1", vcpus=4, memory_mb=8192)
    stage.run(AUDIT)
    stage.run(LIST)


def refusal(stage: Stage) -> None:
    stage.chapter("A refusal says what, where, how much was asked and how much there is")
    too_much = f"--instance {STRANGER} --vcpus 64 --memory 60000 --root-gb 1"
    stage.run(f"claim test {too_much}", expect=3)


def devices(stage: Stage) -> None:
    stage.chapter("A guest gets a GPU, and who asks for more than are left is told so")
    alias = "--property pci_passthrough:alias=gpu"
    first = f"--instance {GPU_GUEST} --name {GPU_NAME} {SMALL} {alias}:1"
    stage.run(f"claim create {first} --operation-id {GPU_BUILD} -c uuid -c state -c pci")
    stage.run(f"claim test --instance {STRANGER} --name ml-2 {SMALL} {alias}:2", expect=3)
    stage.say("A device that acts up is kept back until it is cleared:")
    stage.run(f"pci quarantine {GPU} --reason 'it overheats'")
    columns = ("address", "product_id", "dev_type", "numa_node", "status", "name", "reason")
    stage.run(f"pci list {' '.join(f'-c {each}' for each in columns)}")
    stage.run(f"pci clear {GPU}")


def stranger(stage: Stage) -> None:
    stage.chapter("A domain that nobody claimed is found and counted, so that it is safe")
    add_domain(stage, STRANGER, "somebody-elses", vcpus=2, memory_mb=2048)
    stage.run(AUDIT)
    stage.run("orphan list")


def power_cut(stage: Stage) -> None:
    stage.chapter("kill -9, and nothing is lost")
    stage.daemon.kill()
    stage.say("rtagentd was killed.")
    stage.run(f"--offline {LIST}")
    stage.start_agent()
    stage.run(LIST)
    stage.say("The caller never saw its answer and asks again, with the same operation id:")
    stage.run(f"claim create {ASKED} --operation-id {BUILD} -f value -c uuid -c state")


def disappearance(stage: Stage) -> None:
    stage.chapter("A guest that disappears keeps its claim until somebody says that it is gone")
    stage.run(f"host simulate edit {stage.host_file} --remove-domain {GUEST}")
    stage.run(AUDIT)
    stage.run(f"claim show {BUILD} -c state -c suspect -c vcpus -c memory_mb")
    stage.run(f"claim release {BUILD}")
    stage.run(LIST)
    stage.run(f"claim history {BUILD} -c at -c action -c before -c after -c actor -c reason")


def placement(stage: Stage) -> None:
    stage.chapter("What Placement knows")
    node_uuid = stage.ask("node show")["uuid"]
    provider = until_mirrored(stage, node_uuid)
    tree = Tree(f"{provider['name']}  {provider['uuid']}  generation {provider['generation']}")
    path = f"/resource_providers/{node_uuid}"
    table = Table("class", "total", "reserved", "ratio", "max of one")
    inventories = stage.placement.client().get(f"{path}/inventories").json()["inventories"]
    for name, inventory in sorted(inventories.items()):
        numbers = ("total", "reserved", "allocation_ratio", "max_unit")
        table.add_row(name, *(str(inventory[number]) for number in numbers))
    tree.add(table)
    traits = stage.placement.client().get(f"{path}/traits").json()["traits"]
    tree.add("\n".join(textwrap.wrap(", ".join(sorted(traits)), 90)))
    stage.console.print(tree)
    stage.say("The stranger's CPUs and memory are in `reserved`: nobody is sent there for them.")


def until_mirrored(stage: Stage, node_uuid: str) -> dict[str, Any]:
    """The provider, once the stranger's memory is in it."""
    client = stage.placement.client()
    for _ in range(300):
        answer = client.get(f"/resource_providers/{node_uuid}/inventories")
        memory = answer.json().get("inventories", {}).get("MEMORY_MB", {})
        if memory.get("reserved", 0) >= 512 + 2048:
            return client.get(f"/resource_providers/{node_uuid}").json()
        time.sleep(0.1)
    raise Unexpected("the agent did not bring Placement up to date")


def add_domain(stage: Stage, domain_uuid: str, name: str, vcpus: int, memory_mb: int) -> None:
    """Start a guest on the simulated host, as a conductor would on a real one."""
    document = stage.directory / f"{name}.xml"
    document.write_text(domain_xml(domain_uuid, vcpus=vcpus, memory_mb=memory_mb, name=name))
    stage.run(f"host simulate edit {stage.host_file} --add-domain {document}")
