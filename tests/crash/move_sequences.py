"""Sequences of moves: which calls are made, at which side, in which order."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from tests.support.pci_hosts import GPU_0, vf

SOURCE, DEST = "source", "dest"
PINNED_TO_ONE_GPU = {"hw:cpu_policy": "dedicated", "pci_passthrough:alias": "gpu:1"}
SMALL = {"vcpus": 1, "memory_mb": 256, "root_gb": 1, "extra_specs": PINNED_TO_ONE_GPU}
GROWN = {"pci_passthrough:alias": "gpu:2"}
LARGE = {"vcpus": 2, "memory_mb": 512, "root_gb": 2, "extra_specs": PINNED_TO_ONE_GPU | GROWN}
#: Fields that depend on the time of the call, and the remark of an audit about a missing guest.
MOMENTARY = frozenset(
    {"created_at", "updated_at", "expires_at", "revision", "suspect", "row_digest"}
)


@dataclass(frozen=True)
class Step:
    """One call. :ivar cause: of its commit. :ivar ahead: seconds that pass before it."""

    side: str
    method: str
    document: Mapping[str, Any]
    cause: str
    ahead: float = 0


@dataclass
class MoveSequence:
    """A guest that is built at the source, and a move of it.

    Two sequences with the same steps differ in their uuids only.

    :ivar stays: the guest's domain stays at the source throughout.
    """

    kind: str
    stays: bool = False
    steps: list[Step] = field(default_factory=list)
    _names: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.owner = self._uuid("the guest")
        self.instance = {"uuid": self.owner, "flavor": SMALL}
        self._migration = {"uuid": self._uuid("the move"), "migration_type": self.kind}

    # -- its calls --------------------------------------------------------------------------------

    @property
    def build(self) -> list[Step]:
        """Return the calls that build the guest, before the move."""
        claim = self._uuid("the first claim")
        return [
            _called(SOURCE, "instance_claim", {"operation_id": claim, "instance": self.instance}),
            self._at(SOURCE, "activate_claim", claim_uuid=claim),
        ]

    def claim(self, method: str, **document: Any) -> MoveSequence:
        arguments = {
            "operation_id": self._uuid("the second claim"),
            "instance": self.instance,
            "migration": self._migration,
        }
        self.steps.append(_called(DEST, method, arguments | document))
        return self

    def then(self, side: str, *methods: str) -> MoveSequence:
        for method in methods:
            its = {"instance_uuid": self.owner, "migration": self._migration}
            self.steps.append(self._at(side, method, **its))
        return self

    def call(self, method: str, **document: Any) -> str:
        """Add a call at the source, and return its operation id."""
        self.steps.append(self._at(SOURCE, method, **document))
        return str(self.steps[-1].document["operation_id"])

    def deleted(self, side: str) -> MoveSequence:
        self.steps.append(self.deletion(side))
        return self

    def deletion(self, side: str) -> Step:
        return self._at(side, "update_usage", instance={"uuid": self.owner, "vm_state": "deleted"})

    def audited(self, side: str, ahead: float = 0) -> MoveSequence:
        self.steps.append(Step(side, "update_available_resource", {}, "audit", ahead))
        return self

    def _at(self, side: str, method: str, **document: Any) -> Step:
        name = f"{method} at the {side} {len(self._names)}"
        return _called(side, method, {"operation_id": self._uuid(name), **document})

    # -- compare ----------------------------------------------------------------------------------

    def named(self, found: Any) -> Any:
        """Return a copy in which names replace the uuids of this sequence."""
        text = json.dumps(found, default=str, sort_keys=True)
        for uuid, name in self._names.items():
            text = text.replace(uuid, name)
        return json.loads(text)

    def comparable(self, answer: Any) -> Any:
        """Return an answer with names for uuids and without the momentary fields."""
        if not isinstance(answer, Mapping) or "uuid" not in answer:
            return None
        return self.named({k: v for k, v in answer.items() if k not in MOMENTARY})

    def _uuid(self, name: str) -> str:
        uuid = str(uuid4())
        self._names[uuid] = name
        return uuid


def _called(side: str, method: str, document: Mapping[str, Any]) -> Step:
    return Step(side, method, document, method)


def _moving_out() -> MoveSequence:
    return MoveSequence("resize").claim("resize_claim", flavor=LARGE).then(SOURCE, "start_move_out")


def _confirmed() -> MoveSequence:
    sequence = _moving_out().then(DEST, "finish_move")
    return sequence.then(SOURCE, "drop_move_claim_at_source")


def _reverted() -> MoveSequence:
    sequence = _moving_out().then(DEST, "finish_move")
    return sequence.then(DEST, "drop_move_claim_at_dest").then(SOURCE, "finish_revert")


def _failed() -> MoveSequence:
    return _moving_out().then(DEST, "drop_move_claim").then(SOURCE, "drop_move_claim")


def _deleted() -> MoveSequence:
    return _moving_out().deleted(SOURCE).deleted(DEST)


def _lapsed() -> MoveSequence:
    return _moving_out().audited(DEST, ahead=1000).then(SOURCE, "drop_move_claim")


def _migrated_live() -> MoveSequence:
    sequence = MoveSequence("live-migration").claim("live_migration_claim")
    sequence = sequence.then(SOURCE, "start_move_out").then(DEST, "finish_move")
    return sequence.then(SOURCE, "drop_move_claim_at_source")


def _running_elsewhere() -> MoveSequence:
    sequence = MoveSequence("evacuation", stays=True).claim("rebuild_claim")
    return sequence.then(DEST, "finish_evacuation")


def _evacuated() -> MoveSequence:
    return _running_elsewhere().then(SOURCE, "drop_move_claim_at_source")


def _found_evacuated() -> MoveSequence:
    return _running_elsewhere().audited(SOURCE).then(SOURCE, "drop_move_claim_at_source")


def devices() -> MoveSequence:
    """No move: the guest gets devices and gives them back, one by one and all at once. Its GPU is
    for one-time use, and is cleared."""
    life = MoveSequence("none")
    owner, request = {"instance_uuid": life.owner}, {"count": 3, "alias_name": "vf"}
    claim = life.call("claim_pci_devices", instance=life.instance, pci_requests=[request])
    life.call("unclaim_pci_devices", **owner, claim_uuid=claim, devices=[vf(0)])
    life.call("allocate_pci_devices_for_instance", **owner, claim_uuid=claim)
    life.call("free_pci_device_allocations_for_instance", **owner, devices=[vf(1)])
    life.deleted(SOURCE).call("clear_pci_device", address=GPU_0)
    claim = life.call("instance_claim", instance=life.instance)
    life.call("activate_claim", claim_uuid=claim)
    life.call("release_claim", claim_uuid=claim)
    life.call("clear_pci_device", address=GPU_0)
    return life


#: Factories: each call makes a new sequence.
SEQUENCES: Mapping[str, Callable[[], MoveSequence]] = {
    "confirmed": _confirmed,
    "reverted": _reverted,
    "failed": _failed,
    "deleted": _deleted,
    "lapsed": _lapsed,
    "migrated live": _migrated_live,
    "evacuated": _evacuated,
    "found evacuated": _found_evacuated,
}

#: The final statuses of the migration records: the destination's and the source's.
ENDS = {
    "confirmed": ("finished", "confirmed"),
    "reverted": ("reverted", "reverted"),
    "failed": ("error", "error"),
    "deleted": ("error", "confirmed"),
    "lapsed": ("error", "error"),
    "migrated live": ("completed", "completed"),
    "evacuated": ("done", "completed"),
    "found evacuated": ("done", "completed"),
}
#: The same on one host, where both sides share a record.
ENDS_ON_ONE_HOST = {
    "confirmed": ("confirmed", "confirmed"),
    "reverted": ("reverted", "reverted"),
    "failed": ("error", "error"),
    "deleted": ("error", "error"),
    "lapsed": ("error", "error"),
}
