"""The chapter of the guest that gains a GPU, loses it, and gains it again."""

from __future__ import annotations

import uuid
from typing import Any

from lxml import etree
from rich.syntax import Syntax

from demo.conductor import Conductor
from demo.stage import Stage
from rtagent.virt.simulate import domain_xml

GUEST = str(uuid.UUID(int=0xD))
NAME, VCPUS, MEMORY_MB = "ml-1", 2, 4096
AUDIT = "audit run -f value -c summary"


def flavor(gpus: int) -> dict[str, Any]:
    specs = {"pci_passthrough:alias": f"gpu:{gpus}"}
    return {"name": f"gpu-{gpus}", "vcpus": VCPUS, "memory_mb": MEMORY_MB, "extra_specs": specs}


INSTANCE = {"uuid": GUEST, "display_name": NAME, "vm_state": "active", "flavor": flavor(1)}


def resize(stage: Stage, built: str) -> None:
    """:param built: the claim that the guest has been built with; it ends here."""
    stage.chapter("The guest is resized from one GPU to two, on a host that has exactly two")
    stage.run(f"claim activate {built} -c state")
    define(stage, built)
    with stage.conductor() as conductor:
        stage.say("The conductor resizes it, and its user takes that back:")
        moved = move(stage, conductor)
        conductor.call("drop_move_claim_at_dest", "revert", **moved)
        conductor.call("finish_revert", "revert", **moved)
        define(stage, built)
        stage.say("Resized once more, and confirmed:")
        moved = move(stage, conductor)
        conductor.call("drop_move_claim_at_source", "confirm", **moved)
        stage.run(AUDIT)
        stage.run("migration list -c type -c role -c status -c claim")
        stage.say("The guest is deleted, and both are free at once:")
        stage.run(f"host simulate edit {stage.host_file} --remove-domain {GUEST}")
        news = {"uuid": GUEST, "vm_state": "deleted"}
        conductor.call("update_usage", f"{NAME} is deleted", instance=news)
    stage.run("pci list --status available -c address -c product_id -c dev_type -c status")


def move(stage: Stage, conductor: Conductor) -> dict[str, Any]:
    """To two GPUs; what the calls that end the move are told."""
    resized = conductor.call("resize_claim", f"{NAME}, 2 GPUs", instance=INSTANCE, flavor=flavor(2))
    migration = {"uuid": resized["migration_uuid"], "migration_type": "resize"}
    step = {"instance_uuid": GUEST, "migration": migration}
    conductor.call("start_move_out", NAME, **step)
    define(stage, resized["uuid"])
    conductor.call("finish_move", NAME, **step)
    return step


def define(stage: Stage, claim: str) -> None:
    """Have the simulated host run the guest as this claim says, in the place of what it ran."""
    plain, made = stage.directory / "plain.xml", stage.directory / f"{NAME}.xml"
    plain.write_text(domain_xml(GUEST, vcpus=VCPUS, memory_mb=MEMORY_MB, name=NAME))
    made.write_text(stage.run(f"claim domain {claim} {plain}", shown=devices))
    gone = f"--remove-domain {GUEST} " if GUEST in stage.host_file.read_text() else ""
    stage.run(f"host simulate edit {stage.host_file} {gone}--add-domain {made}")


def devices(document: str) -> Syntax:
    """What of it the story is about."""
    found = etree.fromstring(document).iterfind("devices/hostdev")
    text = "\n    ".join(etree.tostring(each, encoding="unicode").strip() for each in found)
    return Syntax(f"  ...\n    {text}\n  ...", "xml", background_color="default")
