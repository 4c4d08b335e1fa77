"""Steps that write allocations to Placement, if the conductor writes them.

Each write is decided for the generations that its consumers have. They are recorded before it, so
that a conductor that has lost the operation decides none; and Placement refuses a late one, because
a consumer has another generation after each write.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

from rtagent.conductor.errors import OperationTaken
from rtagent.conductor.run import Run
from rtagent.errors import PlacementConflict, RtAgentError
from rtagent.model.consumers import INSTANCE, MIGRATION
from rtagent.placement.client import CONCURRENT_UPDATE
from rtagent.placement.consumers import ATTEMPTS, INTERRUPTED, NO_IDENTITY

_Consumers = Mapping[str, Mapping[str, Any]]
#: The generation of a consumer after its first write.
_FIRST = 1


def write(run: Run, request: Mapping[str, Any]) -> None:
    """Replace the server's allocations by a candidate. :param request: as Placement makes them."""
    spec, mappings = run.progress.spec, request.get("mappings") or None
    more = {"mappings": mappings, "project_id": spec.project_id, "user_id": spec.user_id}
    given = {name: value for name, value in more.items() if value is not None}
    wanted = {**given, "allocations": request["allocations"], "consumer_type": INSTANCE}
    _change(run, (run.server.uuid,), lambda found: {run.server.uuid: wanted})


def keep(run: Run) -> None:
    """Leave the server's allocations as they are, out of the reach of late writes."""
    _change(run, (run.server.uuid,), lambda found: found)


def give(run: Run, sender: str, receiver: str) -> None:
    """Give the allocations of one consumer, a server or a migration, to another, in one request."""
    type_ = INSTANCE if receiver == run.server.uuid else MIGRATION

    def given(found: _Consumers) -> _Consumers:
        consumer = found[sender]
        if not consumer["allocations"]:
            return found  # that was done
        identity = {name: consumer.get(name, NO_IDENTITY) for name in ("project_id", "user_id")}
        return {
            sender: {"allocations": {}},
            receiver: {**identity, "allocations": consumer["allocations"], "consumer_type": type_},
        }

    _change(run, (sender, receiver), given)


def delete(run: Run, *consumers: str) -> None:
    """Delete all allocations of consumers."""
    for uuid in consumers:
        _change(run, (uuid,), lambda found: {name: {"allocations": {}} for name in found})


def of(run: Run) -> Mapping[str, Any] | None:
    """Return the server's allocations by provider; None: the conductor writes none."""
    if run.allocations is None:
        return None
    return _resources(_read(run, run.server.uuid))


def decide(run: Run) -> int | None:
    """Record and return the generation for which a selection is decided; None: for any.

    Nobody has allocated anything for a new server. If that is not so, the scheduler refuses.
    """
    if run.allocations is None:
        return None
    if run.is_new:
        run.is_new = False  # the scheduler is asked: what has this generation may come late
        return 0
    generation = _read(run, run.server.uuid).get("consumer_generation") or 0
    _record(run, generation)
    return generation


@contextmanager
def withdrawn_if_late(run: Run) -> Iterator[None]:
    """Delete what calls in the block allocate for a server that had nothing, if they were late: a
    consumer without allocations has no generation that a late call could miss. The answer may have
    been lost. What others have allocated since they took over has a higher generation.

    :raises OperationTaken: they were late.
    """
    failed = None
    try:
        yield
    except RtAgentError as error:  # it may have had its effect
        failed = error
    try:
        run.own()
    except OperationTaken:
        if run.allocations is not None:
            content = {"allocations": {}, "consumer_generation": _FIRST}
            with suppress(RtAgentError):  # another conductor has written since
                run.allocations.write({run.server.uuid: _whole({}, content)})
        raise
    if failed is not None:
        raise failed


def _change(run: Run, uuids: tuple[str, ...], change: Callable[[_Consumers], _Consumers]) -> None:
    """Write consumers, unless they are so. After a concurrent write, decide anew.

    :param change: returns what the consumers should be, from what they are.
    """
    if run.allocations is None:
        return
    attempts, empty = ATTEMPTS + run.floor, None  # the generation without allocations
    for attempt in range(attempts):
        found = {uuid: _read(run, uuid) for uuid in uuids}
        wanted = change(found)
        if all(_is_so(run, uuid, found[uuid], each) for uuid, each in wanted.items()):
            return
        server = found.get(run.server.uuid, {})
        _record(run, server.get("consumer_generation") or 0)
        try:
            _write(run, {uuid: _whole(found[uuid], each, empty) for uuid, each in wanted.items()})
        except PlacementConflict as error:
            if error.kwargs.get("code") != CONCURRENT_UPDATE or attempt == attempts - 1:
                raise
            empty = INTERRUPTED if empty is None else None


def _is_so(run: Run, uuid: str, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    if _resources(found) != _resources(wanted):
        return False
    late = uuid == run.server.uuid and found.get("consumer_generation", 0) <= run.floor
    return not (late and found["allocations"])


def _read(run: Run, uuid: str) -> Mapping[str, Any]:
    allocations = run.allocations
    assert allocations is not None
    return run.reach(lambda: allocations.consumer(uuid))


def _record(run: Run, generation: int) -> None:
    """Record the decision to write for a generation. :raises OperationTaken:"""
    run.learn(consumer_generation=max(run.progress.consumer_generation, generation))
    run.save()


def _write(run: Run, consumers: _Consumers) -> None:
    allocations = run.allocations
    assert allocations is not None
    server = consumers.get(run.server.uuid)
    is_first = server is not None and not server["consumer_generation"]
    with withdrawn_if_late(run) if is_first else nullcontext():
        run.reach(lambda: allocations.write(consumers))


def _whole(
    found: Mapping[str, Any], wanted: Mapping[str, Any], empty: int | None = None
) -> dict[str, Any]:
    """Return what is written for a consumer. :param empty: its generation without allocations."""
    known = {
        "project_id": found.get("project_id", NO_IDENTITY),
        "user_id": found.get("user_id", NO_IDENTITY),
        "consumer_type": found.get("consumer_type", INSTANCE),
        "consumer_generation": found.get("consumer_generation", empty),
    }
    return {**known, **wanted, "allocations": _resources(wanted)}


def _resources(consumer: Mapping[str, Any]) -> dict[str, Any]:
    parts = consumer["allocations"].items()
    return {uuid: {"resources": dict(part["resources"])} for uuid, part in parts}
