"""Endings: which calls end which claims."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from tests.chaos.checker.run import Call

#: End the claim that they name.
BY_CLAIM = frozenset(
    {
        *("release_claim", "abort_instance_claim", "unclaim_pci_devices"),
        *("free_pci_device_claims_for_instance", "free_pci_device_allocations_for_instance"),
    }
)
#: End claims of the instance that they name, if they name no claim.
BY_OWNER = frozenset(
    {
        *("free_pci_device_claims_for_instance", "free_pci_device_allocations_for_instance"),
        *("drop_move_claim_at_source", "drop_move_claim_at_dest", "drop_move_claim"),
        "update_usage",
    }
)
#: At another host: the guest lives there for good, so an audit ends what it has here.
ELSEWHERE = frozenset({"rebuild_claim", "finish_evacuation"})
#: States of an instance that end all its claims.
ENDED_STATES = frozenset({"deleted", "shelved_offloaded"})
#: End the claim that the migration made on this host.
AT_DESTINATION = frozenset({"drop_move_claim_at_dest", "drop_move_claim"})
FINISHING = frozenset({"finish_move", "finish_evacuation"})


class Endings:
    """The calls that may end claims, indexed.

    A repetition that begins after its operation was answered has no effect, and is left out.
    """

    def __init__(self, calls: Iterable[Call]) -> None:
        self._by_claim: dict[str, list[Call]] = defaultdict(list)
        self._by_owner: dict[str, list[Call]] = defaultdict(list)
        self._main_claims: dict[str, list[Call]] = defaultdict(list)
        self._elsewhere: dict[str, list[Call]] = defaultdict(list)
        self._finished: dict[tuple[str, str], float] = {}
        self._sources: dict[tuple[str, str], str] = {}
        owners: dict[str, str] = {}
        answered: dict[str | None, float] = {}
        #: By operation id, when it was first called.
        self.begun: dict[str | None, float] = {}
        for call in calls:
            if answered.get(call.operation_id, call.ended) < call.invoked:
                continue
            if call.ok:
                at = min(call.ended, answered.get(call.operation_id, call.ended))
                answered[call.operation_id] = at
            self.begun.setdefault(call.operation_id, call.invoked)
            if call.method.endswith("_claim") and "instance" in call.arguments:
                owners[str(call.operation_id)] = call.arguments["instance"]["uuid"]
            self._add(call)
        for uuid, ends in list(self._by_claim.items()):
            if uuid in owners:
                self._main_claims[owners[uuid]].extend(ends)

    def _add(self, call: Call) -> None:
        claim, owner = call.arguments.get("claim_uuid"), owner_of(call)
        if call.method in BY_CLAIM and claim:
            self._by_claim[claim].append(call)
        elif call.method in BY_OWNER and _ends(call):
            self._by_owner[owner].append(call)
        elif call.method in ELSEWHERE:
            self._elsewhere[owner].append(call)
        key = call.host, _migration(call)
        if call.method in FINISHING:
            self._finished[key] = min(call.invoked, self._finished.get(key, call.invoked))
        if call.method == "start_move_out" and call.ok and isinstance(call.reply, dict):
            self._sources[key] = str(call.reply.get("uuid"))

    def of(self, host: str, claim: str, owner: str, kind: str) -> Iterator[Call]:
        """Yield the calls that may have ended a claim.

        :param kind: ``attach``: the end of the owner's main claim ends it, too.
        """
        here = (*self._by_claim[claim], *self._by_owner[owner])
        mains = self._main_claims[owner] if kind == "attach" else ()
        for call in {id(each): each for each in (*here, *mains)}.values():
            if call.host == host:
                yield call
        for call in self._elsewhere[owner]:
            if call.host != host:
                yield call

    def certain(self, host: str, claim: str, owner: str, migration: str) -> Iterator[Call]:
        """Yield the calls after whose success the claim does not exist.

        :param migration: the move for which the claim was made, or "".
        """
        for call in (*self._by_claim[claim], *self._by_owner[owner]):
            if call.ok and call.host == host and self._is_certain(call, claim, migration):
                yield call

    def of_mains(self, host: str, owner: str) -> Iterator[Call]:
        """Yield the successful calls that named, and ended, a claim for the guest of an owner."""
        for call in self._main_claims[owner]:
            if call.ok and call.host == host:
                yield call

    def _is_certain(self, call: Call, claim: str, migration: str) -> bool:
        if call.method in BY_CLAIM and call.arguments.get("claim_uuid"):
            return not call.arguments.get("devices")
        key = call.host, _migration(call)
        if call.method == "drop_move_claim_at_source":
            return self._sources.get(key) == claim
        if call.method in AT_DESTINATION:
            # After the guest has arrived, the call may come too late to end anything.
            arrived = self._finished.get(key, call.ended)
            return bool(migration) and key[1] == migration and arrived >= call.ended
        return call.method == "update_usage"


def owner_of(call: Call) -> str:
    """Return the instance that a call names, or ""."""
    instance: Any = call.arguments.get("instance") or {}
    return str(call.arguments.get("instance_uuid") or instance.get("uuid") or "")


def _migration(call: Call) -> str:
    migration: Any = call.arguments.get("migration") or {}
    return str(migration.get("uuid") or "")


def _ends(call: Call) -> bool:
    if call.method != "update_usage":
        return True
    return (call.arguments.get("instance") or {}).get("vm_state") in ENDED_STATES
