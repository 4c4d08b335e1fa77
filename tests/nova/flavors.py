"""Flavors of one vCPU. Run in the environment with Nova."""

from __future__ import annotations

from typing import Any

from nova import exception, objects
from oslo_utils import uuidutils


def flavor(**facts: Any) -> Any:
    """Return a flavor of one vCPU and no disk, which is not saved. :param facts: what is else."""
    plain = {
        "vcpus": 1,
        "root_gb": 0,
        "ephemeral_gb": 0,
        "swap": 0,
        "rxtx_factor": 1.0,
        "vcpu_weight": 0,
        "disabled": False,
        "is_public": True,
        "extra_specs": {},
    }
    return objects.Flavor(**{**plain, **facts})


def flavor_with(ctxt: Any, memory_mb: int, extra_specs: dict[str, str]) -> Any:
    """Return the saved flavor of this memory, in MB, with these extra specs."""
    specs = "".join(f",{key}={value}" for key, value in sorted(extra_specs.items()))
    name = f"{memory_mb}{specs}"
    try:
        return objects.Flavor.get_by_name(ctxt, name)
    except exception.FlavorNotFoundByName:
        made = flavor(
            context=ctxt,
            name=name,
            flavorid=uuidutils.generate_uuid(),
            memory_mb=memory_mb,
            extra_specs=extra_specs,
        )
        made.create()
        return made
