"""Stories of moves: which calls are made, at which side, in which order."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

SOURCE, DEST = "source", "dest"
PINNED_TO_ONE_GPU = {"hw:cpu_policy": "dedicated", "pci_passthrough:alias": "gpu:1"}
SMALL = {"vcpus": 1, "memory_mb": 256, "root_gb": 1, "extra_specs": PINNED_TO_ONE_GPU}
GROWN = {"pci_passthrough:alias": "gpu:2"}
LARGE = {"vcpus": 2, "memory_mb": 512, "root_gb": 2, "extra_specs": PINNED_TO_ONE_GPU | GROWN}
#: What an answer tells of its moment, and what an audit remarks of a guest that it does not see.
MOMENTARY = frozenset({"created_at", "updated_at", "expires_at", "revision", "suspect"})


@dataclass(frozen=True)
class Step:
    """One call. :ivar cause: of its commit. :ivar ahead: how many seconds pass before it."""

    side: str
    method: str
    document: Mapping[str, Any]
    cause: str
    ahead: float = 0


@dataclass
class Story:
    """One guest that is built at the source, and a move of it. Two of one kind differ in their
    uuids alone.

    :ivar stays: the guest's domain is still at the source, whatever is done.
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
        """What comes before."""
        claim = self._uuid("the first claim")
        return [
            _called(SOURCE, "instance_claim", {"operation_id": claim, "instance": self.instance}),
            self._at(SOURCE, "activate_claim", claim_uuid=claim),
        ]

    def claim(self, method: str, **document: Any) -> Story:
        asked = {
            "operation_id": self._uuid("the second claim"),
            "instance": self.instance,
            "migration": self._migration,
        }
        self.steps.append(_called(DEST, method, asked | document))
        return self

    def then(self, side: str, *methods: str) -> Story:
        for method in methods:
            its = {"instance_uuid": self.owner, "migration": self._migration}
            self.steps.append(self._at(side, method, **its))
        return self

    def deleted(self, side: str) -> Story:
        self.steps.append(self.deletion(side))
        return self

    def deletion(self, side: str) -> Step:
        return self._at(side, "update_usage", instance={"uuid": self.owner, "vm_state": "deleted"})

    def audited(self, side: str, ahead: float = 0) -> Story:
        self.steps.append(Step(side, "update_available_resource", {}, "audit", ahead))
        return self

    def _at(self, side: str, method: str, **document: Any) -> Step:
        name = f"{method} at the {side} {len(self._names)}"
        return _called(side, method, {"operation_id": self._uuid(name), **document})

    # -- what is told of it -----------------------------------------------------------------------

    def named(self, found: Any) -> Any:
        """The same, in which a name stands for each uuid of this story."""
        text = json.dumps(found, default=str, sort_keys=True)
        for uuid, name in self._names.items():
            text = text.replace(uuid, name)
        return json.loads(text)

    def settled(self, answer: Any) -> Any:
        """An answer, without what tells of its moment."""
        if not isinstance(answer, Mapping) or "uuid" not in answer:
            return None
        return self.named({k: v for k, v in answer.items() if k not in MOMENTARY})

    def _uuid(self, name: str) -> str:
        uuid = str(uuid4())
        self._names[uuid] = name
        return uuid


def _called(side: str, method: str, document: Mapping[str, Any]) -> Step:
    return Step(side, method, document, method)


def _resized() -> Story:
    return Story("resize").claim("resize_claim", flavor=LARGE)


def _confirmed() -> Story:
    story = _resized().then(SOURCE, "start_move_out").then(DEST, "finish_move")
    return story.then(SOURCE, "drop_move_claim_at_source")


def _reverted() -> Story:
    story = _resized().then(SOURCE, "start_move_out").then(DEST, "finish_move")
    return story.then(DEST, "drop_move_claim_at_dest").then(SOURCE, "finish_revert")


def _failed() -> Story:
    story = _resized().then(SOURCE, "start_move_out")
    return story.then(DEST, "drop_move_claim").then(SOURCE, "drop_move_claim")


def _deleted() -> Story:
    return _resized().then(SOURCE, "start_move_out").deleted(SOURCE).deleted(DEST)


def _lapsed() -> Story:
    story = _resized().then(SOURCE, "start_move_out").audited(DEST, ahead=1000)
    return story.then(SOURCE, "drop_move_claim")


def _migrated_live() -> Story:
    story = Story("live-migration").claim("live_migration_claim").then(SOURCE, "start_move_out")
    return story.then(DEST, "finish_move").then(SOURCE, "drop_move_claim_at_source")


def _evacuated() -> Story:
    story = Story("evacuation", stays=True).claim("rebuild_claim").then(DEST, "finish_evacuation")
    return story.then(SOURCE, "drop_move_claim_at_source")


def _found_evacuated() -> Story:
    story = Story("evacuation", stays=True).claim("rebuild_claim").then(DEST, "finish_evacuation")
    return story.audited(SOURCE).then(SOURCE, "drop_move_claim_at_source")


#: Each as it is told anew.
STORIES: Mapping[str, Callable[[], Story]] = {
    "confirmed": _confirmed,
    "reverted": _reverted,
    "failed": _failed,
    "deleted": _deleted,
    "lapsed": _lapsed,
    "migrated live": _migrated_live,
    "evacuated": _evacuated,
    "found evacuated": _found_evacuated,
}

#: How each ends: the statuses of its records, the destination's and the source's.
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
#: The same, where one record is both sides'.
ENDS_ON_ONE_HOST = {
    "confirmed": ("confirmed", "confirmed"),
    "reverted": ("reverted", "reverted"),
    "failed": ("error", "error"),
    "deleted": ("error", "error"),
    "lapsed": ("error", "error"),
}
