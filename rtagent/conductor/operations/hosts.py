"""Steps that select a host, claim resources on it, and make a guest ready there.

A call that ends a claim is owed to a host that does not answer.
"""

import uuid
from contextlib import nullcontext, suppress
from typing import Any
from uuid import UUID

import msgspec
from msgspec.structs import replace

from rtagent.conductor.engine import Step, Table
from rtagent.conductor.operations import allocations
from rtagent.conductor.run import Progress, Run
from rtagent.errors import RtAgentError
from rtagent.model.claim import EVACUATION
from rtagent.model.server import Place, RequestSpec, Selections, ServerOperation
from rtagent.scheduler.errors import ConsumerHasAllocations, NoValidHost

#: The policies of server groups that a host must not break.
STRICT = ("affinity", "anti-affinity")


def owe(run: Run, table: Table, name: str, **fields: Any) -> None:
    """Record an operation at another host with the next step. It is made when its host answers.

    :param name: tells it from others that this operation owes. :param fields: of its progress.
    """
    operation, progress = run.operation, run.progress
    owed = Progress(spec=progress.spec, was=progress.was, **fields)
    run.owed.append(
        ServerOperation(
            uuid=str(uuid.uuid5(UUID(operation.uuid), name)),
            server_uuid=operation.server_uuid,
            kind=table.kind,
            step=table.steps[0].name,
            created_at=operation.updated_at,
            updated_at=operation.updated_at,
            progress=owed.document(),
        )
    )


def _call(run: Run) -> None:
    source, call = run.progress.source, run.progress.call
    assert source is not None
    assert call is not None
    method, arguments = call
    run.end(source, method, **arguments)


OWED_CALL = Table(
    kind="owed-call", steps=(Step(name="call", do=_call),), only_forward=True, alone=True
)


#: Seconds for which a selection is repeated while the scheduler counts claims of the server that
#: have ended: some times the interval of reports.
VIEW_TIMEOUT = 15.0


def select(run: Run) -> None:
    """Select a host, unless an earlier conductor did, and allocate what the server needs there."""
    allocated = run.progress.selection is None and _select(run)
    if run.progress.spec.purpose == EVACUATION:
        allocations.keep(run)
    elif not allocated:
        allocate(run)


def _select(run: Run) -> bool:
    """Take the next alternate that was not tried, or ask the scheduler.

    :returns: whether the scheduler has allocated what the server needs, out of the reach of late
        writes.
    """
    progress = run.progress
    tried = tuple(each.host for each in progress.tried)
    alternates = tuple(each for each in progress.alternates if each.host not in tried)
    if alternates:
        run.learn(selection=alternates[0], alternates=alternates[1:])
        return False
    spec = replace(progress.spec, ignore_hosts=(*progress.spec.ignore_hosts, *tried))
    try:
        generation, found = _ask(run, spec)
    except ConsumerHasAllocations:  # those of a selection whose answer was lost
        allocations.delete(run, run.server.uuid)
        generation, found = _ask(run, spec)
    # In an evacuation the allocation at the source is kept until the guest has arrived.
    kept = run.allocations is not None and spec.purpose == EVACUATION
    # Others of the server group may have got an alternate since. The scheduler knows that.
    strict = spec.instance_group is not None and spec.instance_group.policy in STRICT
    run.learn(selection=found.selected, alternates=() if kept or strict else found.alternates)
    return generation is not None and generation >= run.floor


def _ask(run: Run, spec: RequestSpec) -> tuple[int | None, Selections]:
    """Ask the scheduler, until it knows which claims of the server have ended. Return its answer,
    and the generation of the server's consumer for which it was asked.

    Its view of a host is as old as the last report: a claim that an operation has just ended
    excludes its host until the next one.
    """
    source = run.progress.source
    live = set() if source is None else {source.claim["uuid"]}

    def call() -> tuple[int | None, Selections]:
        _restore_source(run)  # an earlier answer may have been lost
        generation = allocations.decide(run)
        decided = replace(spec, consumer_generation=generation)
        [found] = run.scheduler.select_destinations(decided, [run.server.uuid], alternates=True)
        return generation, found

    def ask() -> tuple[int | None, Selections]:
        is_first = spec.purpose != EVACUATION
        with allocations.withdrawn_if_late(run) if is_first else nullcontext():
            return run.reach(call)

    def is_behind(error: RtAgentError) -> bool:
        known = error.kwargs.get("own_claims", ())
        return isinstance(error, NoValidHost) and not live.issuperset(known)

    return run.patience.repeat(ask, VIEW_TIMEOUT, retriable=is_behind)


def unselect(run: Run) -> None:
    """Report to the scheduler that its selection is not used, and delete the allocation.

    Without a selection there may be an allocation, too: of an answer that was lost.
    """
    selection = run.progress.selection
    if selection is not None:
        with suppress(RtAgentError):  # without this, the scheduler forgets it later
            run.scheduler.forget_claim(selection.operation_id)
    if run.progress.spec.purpose != EVACUATION:
        allocations.delete(run, run.server.uuid)
    else:
        _restore_source(run)


def _restore_source(run: Run) -> None:
    """Write the allocations of an evacuated server at its source again."""
    if run.progress.allocations is not None:
        allocations.write(run, {"allocations": run.progress.allocations})


def allocate(run: Run) -> None:
    """Allocate what the selection needs, and nothing else, if the conductor writes allocations."""
    selection = run.progress.selection
    if selection is not None and selection.allocation_request is not None:
        allocations.write(run, selection.allocation_request)


def claim_arguments(run: Run) -> dict[str, Any]:
    """Return the arguments that every call takes that creates a claim at the selected host."""
    selection = run.progress.selection
    assert selection is not None
    arguments: dict[str, Any] = {
        "operation_id": selection.operation_id,
        "limits": msgspec.to_builtins(selection.limits),
    }
    if selection.allocations is not None:
        arguments["allocations"] = msgspec.to_builtins(selection.allocations)
        arguments["provider_mapping"] = msgspec.to_builtins(selection.provider_mapping)
    if extra := run.progress.spec.extra_resource:
        arguments["extra_resource"] = msgspec.to_builtins(extra)
    return arguments


def end_claim(run: Run, place: Place, method: str, **arguments: Any) -> None:
    """End a claim for which no guest runs. If the host does not answer, the call is owed: the
    operation can go on, because no guest runs there."""
    arguments["operation_id"] = run.id(f"{method} {place.host}")
    try:
        run.end(place, method, **arguments)
    except RtAgentError as error:
        if not error.retriable:
            raise
        name, call = f"owed {arguments['operation_id']}", (method, arguments)
        owe(run, OWED_CALL, name, source=place, call=call)


def prepare(run: Run) -> None:
    """Call the hook that makes disks and networks ready, and renew the lease while it runs."""
    dest = run.progress.dest
    run.hook("prepare", dest.host, lease=dest)


def cleanup(run: Run) -> None:
    """Remove what `prepare` made."""
    run.hook("cleanup", run.progress.selected.host)


def define(run: Run) -> None:
    """Define the domain with the claim's guest document."""
    run.define(run.progress.dest)


def undefine(run: Run) -> None:
    """Remove the domain from the selected host, running or not."""
    run.undefine(run.progress.selected)


def start(run: Run) -> None:
    """Start the domain."""
    run.start(run.progress.dest)
