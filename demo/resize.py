"""A guest is resized from one GPU to two, reverted, resized again, and confirmed."""

from __future__ import annotations

import time
import uuid
from typing import Any

from lxml import etree
from rich.syntax import Syntax

from demo.conductor import Conductor
from demo.environment import Environment
from demo.screen import UnexpectedExit
from rtagent.virt.simulate import domain_xml

GUEST = str(uuid.UUID(int=0xD))
NAME, VCPUS, MEMORY_MB = "ml-1", 2, 4096
AUDIT = "audit run -f value -c summary"


def flavor(gpus: int) -> dict[str, Any]:
    specs = {"pci_passthrough:alias": f"gpu:{gpus}"}
    return {"name": f"gpu-{gpus}", "vcpus": VCPUS, "memory_mb": MEMORY_MB, "extra_specs": specs}


INSTANCE = {"uuid": GUEST, "display_name": NAME, "vm_state": "active", "flavor": flavor(1)}


def resize(demo: Environment, built: str) -> None:
    """Play the chapter. :param built: uuid of the claim with which the guest was built."""
    demo.chapter("The guest is resized from one GPU to two, on a host that has exactly two")
    demo.run(f"claim activate {built} -c state")
    define(demo, built)
    with demo.conductor() as conductor:
        demo.say("The conductor resizes it; then the user reverts the resize:")
        step = move(demo, conductor)
        conductor.call("drop_move_claim_at_dest", "revert", **step)
        conductor.call("finish_revert", "revert", **step)
        define(demo, built)
        demo.say("The resize is repeated and confirmed:")
        step = move(demo, conductor)
        conductor.call("drop_move_claim_at_source", "confirm", **step)
        demo.run(AUDIT)
        demo.run("migration list -c type -c role -c status -c claim")
        _wait_allocated(demo)
        demo.say("The guest is deleted and both GPUs are free at once:")
        demo.run(f"host simulate edit {demo.host_file} --remove-domain {GUEST}")
        update = {"uuid": GUEST, "vm_state": "deleted"}
        conductor.call("update_usage", f"{NAME} is deleted", instance=update)
    demo.run("pci list --status available -c address -c product_id -c dev_type -c status")


def _wait_allocated(demo: Environment) -> None:
    """Wait until Placement has the guest's devices, as a later chapter shows."""
    for _ in range(300):
        if demo.placement.client().get(f"/allocations/{GUEST}").json()["allocations"]:
            return
        time.sleep(0.1)
    raise UnexpectedExit(f"the agent did not write the allocation of {NAME}")


def move(demo: Environment, conductor: Conductor) -> dict[str, Any]:
    """Resize to two GPUs; return the arguments of the calls that finish the move."""
    resized = conductor.call("resize_claim", f"{NAME}, 2 GPUs", instance=INSTANCE, flavor=flavor(2))
    migration = {"uuid": resized["migration_uuid"], "migration_type": "resize"}
    step = {"instance_uuid": GUEST, "migration": migration}
    conductor.call("start_move_out", NAME, **step)
    define(demo, resized["uuid"])
    conductor.call("finish_move", NAME, **step)
    return step


def define(demo: Environment, claim: str) -> None:
    """Run the guest on the simulated host as the claim describes it, replacing its domain."""
    plain, merged = demo.directory / "plain.xml", demo.directory / f"{NAME}.xml"
    plain.write_text(domain_xml(GUEST, vcpus=VCPUS, memory_mb=MEMORY_MB, name=NAME))
    merged.write_text(demo.run(f"claim domain {claim} {plain}", shown=devices))
    removal = f"--remove-domain {GUEST} " if GUEST in demo.host_file.read_text() else ""
    demo.run(f"host simulate edit {demo.host_file} {removal}--add-domain {merged}")


def devices(document: str) -> Syntax:
    """Return the device elements of a domain document."""
    found = etree.fromstring(document).iterfind("devices/hostdev")
    text = "\n    ".join(etree.tostring(each, encoding="unicode").strip() for each in found)
    return Syntax(f"  ...\n    {text}\n  ...", "xml", background_color="default")
