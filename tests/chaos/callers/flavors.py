"""Random instances, which use every resource of the simulated hosts."""

import random
from typing import Any
from uuid import UUID

from tests.chaos.world.hosts import GPU, VIRTUAL_FUNCTION

#: Extra specs of a flavor; several may be combined.
_CPUS: tuple[dict[str, str], ...] = (
    {},
    {},
    {"hw:cpu_policy": "dedicated"},
    {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "require"},
    {"hw:cpu_policy": "dedicated", "hw:numa_nodes": "2"},
)
_PAGES: tuple[dict[str, str], ...] = ({}, {}, {"hw:mem_page_size": "2048"})
_DEVICES: tuple[dict[str, str], ...] = (
    {},
    {},
    {},
    {"pci_passthrough:alias": "gpu:1"},
    {"pci_passthrough:alias": "vf:1"},
    {"pci_passthrough:alias": "gpu:1,vf:1"},
    {"resources:VGPU": "1"},
)


def new_uuid(rng: random.Random) -> str:
    return str(UUID(int=rng.getrandbits(128), version=4))


def flavor(rng: random.Random, *, plain: bool = False) -> dict[str, Any]:
    """Return a random flavor. :param plain: without extra specs."""
    specs = {} if plain else {**rng.choice(_CPUS), **rng.choice(_PAGES), **rng.choice(_DEVICES)}
    return {
        "vcpus": rng.choice((2, 4) if specs else (1, 2, 3)),
        "memory_mb": rng.choice((256, 512, 1024)),
        "root_gb": rng.choice((0, 1, 2)),
        "extra_specs": specs,
    }


def instance(rng: random.Random, *, plain: bool = False) -> dict[str, Any]:
    """Return a random instance. :param plain: its flavor has no extra specs."""
    uuid = new_uuid(rng)
    return {"uuid": uuid, "display_name": f"guest-{uuid[:8]}", "flavor": flavor(rng, plain=plain)}


def device_request(rng: random.Random) -> dict[str, Any]:
    """Return a request for one device to be attached."""
    wanted = rng.choice((GPU, VIRTUAL_FUNCTION))
    return {"count": 1, "request_id": new_uuid(rng), "spec": [dict(wanted)]}
