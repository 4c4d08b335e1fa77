"""Deed: one call that changes state, its answer, and what it does to a claim."""

import random
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from rtagent.model.base import Value

MB_IN_GB = 1024

#: What each method writes into a claim's history, and the state that the claim is in then (None:
#: as before).
EFFECTS: Mapping[str, tuple[str, str | None]] = {
    "instance_claim": ("create", "building"),
    "activate_claim": ("activate", "active"),
    "renew_claim": ("renew", None),
    "update_usage": ("update", None),
    "abort_instance_claim": ("abort", "released"),
    "release_claim": ("release", "released"),
}


class Deed(Value, frozen=True, kw_only=True):
    """:ivar document: the call's arguments. :ivar claim_uuid: the claim that it is about, or "".
    :ivar ends: it releases the claim although its method does not say so.
    """

    method: str
    document: Mapping[str, Any]
    claim_uuid: str = ""
    ends: bool = False

    @property
    def operation_id(self) -> str:
        return str(self.document["operation_id"])

    @property
    def cause(self) -> str:
        """By which failpoints know its commit."""
        return self.method

    @property
    def effect(self) -> tuple[str, str | None]:
        """The action in the claim's history, and the claim's next state."""
        return ("release", "released") if self.ends else EFFECTS[self.method]


class Writer:
    """Makes deeds; the same ones for the same seed."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def uuid(self) -> str:
        return str(UUID(int=self._rng.getrandbits(128), version=4))

    def claim(self, owner: str = "", *, vcpus: int = 1, memory_mb: int = 64) -> Deed:
        """A build; the claim's uuid is the operation's."""
        operation_id = self.uuid()
        flavor = {"vcpus": vcpus, "memory_mb": memory_mb, "root_gb": 1}
        instance = {"uuid": owner or self.uuid(), "flavor": flavor}
        return Deed(
            method="instance_claim",
            document={"operation_id": operation_id, "instance": instance},
            claim_uuid=operation_id,
        )

    def step(self, method: str, claim_uuid: str) -> Deed:
        """``activate_claim`` and its like."""
        document = {"operation_id": self.uuid(), "claim_uuid": claim_uuid}
        return Deed(method=method, document=document, claim_uuid=claim_uuid)

    def abort_unseen(self) -> Deed:
        """Of an id that nobody used."""
        return self.step("abort_instance_claim", self.uuid())

    def news(self, claim_uuid: str, owner: str, vm_state: str) -> Deed:
        """``update_usage``."""
        instance = {"uuid": owner, "vm_state": vm_state}
        return Deed(
            method="update_usage",
            document={"operation_id": self.uuid(), "instance": instance},
            claim_uuid=claim_uuid,
            ends=vm_state == "deleted",
        )

    def build_failed(self) -> Deed:
        return Deed(method="build_failed", document={"operation_id": self.uuid()})
