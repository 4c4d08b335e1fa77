"""Operation: one call that changes state, and its effect on a claim."""

import random
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from rtagent.model.base import Value

MB_IN_GB = 1024

#: The action that each method writes into a claim's history, and the claim's next state (None:
#: unchanged).
EFFECTS: Mapping[str, tuple[str, str | None]] = {
    "instance_claim": ("create", "building"),
    "activate_claim": ("activate", "active"),
    "renew_claim": ("renew", None),
    "update_usage": ("update", None),
    "abort_instance_claim": ("abort", "released"),
    "release_claim": ("release", "released"),
}


class Operation(Value, frozen=True, kw_only=True):
    """One call.

    :ivar document: its arguments.
    :ivar claim_uuid: the claim that it changes, or "".
    :ivar ends: it releases the claim although its method is not a release.
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
        """The cause of its commit, which failpoints name."""
        return self.method

    @property
    def effect(self) -> tuple[str, str | None]:
        """The action in the claim's history, and the claim's next state."""
        return ("release", "released") if self.ends else EFFECTS[self.method]


class OperationFactory:
    """Makes operations, the same ones for the same seed."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def uuid(self) -> str:
        return str(UUID(int=self._rng.getrandbits(128), version=4))

    def claim(self, owner: str = "", *, vcpus: int = 1, memory_mb: int = 64) -> Operation:
        """Make a build; the claim's uuid is the operation's id."""
        operation_id = self.uuid()
        flavor = {"vcpus": vcpus, "memory_mb": memory_mb, "root_gb": 1}
        instance = {"uuid": owner or self.uuid(), "flavor": flavor}
        return Operation(
            method="instance_claim",
            document={"operation_id": operation_id, "instance": instance},
            claim_uuid=operation_id,
        )

    def step(self, method: str, claim_uuid: str) -> Operation:
        """Make a call of a method that takes a claim's uuid, such as ``activate_claim``."""
        document = {"operation_id": self.uuid(), "claim_uuid": claim_uuid}
        return Operation(method=method, document=document, claim_uuid=claim_uuid)

    def abort_unknown(self) -> Operation:
        """Make an abort of an id that was never used."""
        return self.step("abort_instance_claim", self.uuid())

    def update(self, claim_uuid: str, owner: str, vm_state: str) -> Operation:
        """Make an ``update_usage``."""
        instance = {"uuid": owner, "vm_state": vm_state}
        return Operation(
            method="update_usage",
            document={"operation_id": self.uuid(), "instance": instance},
            claim_uuid=claim_uuid,
            ends=vm_state == "deleted",
        )

    def build_failed(self) -> Operation:
        return Operation(method="build_failed", document={"operation_id": self.uuid()})
