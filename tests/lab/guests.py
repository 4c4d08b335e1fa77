"""Guests on a lab host: domains that are defined from their claims."""

from typing import Any

import msgspec

from rtagent.rpc import replies
from rtagent.virt.libvirt import guest
from tests.lab.rack import CONTEXT, Served
from tests.servers import domain_xml


def granted(claim: dict[str, Any]) -> replies.Claim:
    return msgspec.convert(claim, replies.Claim, strict=False)


def create(host: Served, claim: dict[str, Any], machine: str = "pc") -> None:
    """Start a guest of `FLAVOR`, named after its uuid, as its claim says it; its CPUs stand still
    again, because an emulated firmware that finds nothing to boot leaves little to all others.

    :param machine: QEMU's name for it.
    """
    owner = claim["owner_id"]
    bare = domain_xml(owner, owner, 2, 128).replace("machine='pc'", f"machine='{machine}'")
    document = guest.apply(bare, granted(claim))
    host.output("virsh", "create", "--validate", "/dev/stdin", given=document)
    host.output("virsh", "suspend", owner)


def started(host: Served, owner: str) -> dict[str, Any]:
    """Claim resources for a guest, activate the claim and start the guest; return the claim."""
    claim = host.claim(owner)
    host.api.activate_claim(CONTEXT, claim["uuid"])
    create(host, claim)
    return claim
