"""The operations delete and forced-delete, which are never undone, and clear-deleted, which ends
the latter at a host that did not answer.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from rtagent.conductor.engine import Step, Table, gone
from rtagent.conductor.errors import OperationTaken
from rtagent.conductor.operations import allocations
from rtagent.conductor.operations.hosts import owe
from rtagent.conductor.operations.moves import migration_uuid
from rtagent.conductor.run import Progress, Run, progress_of
from rtagent.errors import RtAgentError
from rtagent.model.server import DELETED, Place, Server, ServerOperation


def places(server: Server) -> Iterator[Place]:
    """Yield the claims of a server: on its host, and at the source of a move."""
    if server.place is not None:
        yield server.place
    if server.move is not None:
        yield server.move.source


def by_host(found: Iterable[Place]) -> Mapping[str, Sequence[Place]]:
    """Return claims by host: a host that a server moves within has two."""
    hosts: dict[str, list[Place]] = {}
    for place in found:
        hosts.setdefault(place.host, []).append(place)
    return hosts


def undefine(run: Run) -> None:
    """Remove the domain from every host, before its claim is released."""
    for claims in by_host(places(run.server)).values():
        run.undefine(*claims)


def cleanup(run: Run) -> None:
    """Remove what the hooks made on every host."""
    for host in by_host(places(run.server)):
        run.hook("cleanup", host)


def release(run: Run) -> None:
    """Report the deletion to every host, which releases the claims and ends the moves."""
    update = {"uuid": run.server.uuid, "vm_state": DELETED}
    for place in places(run.server):
        run.end(place, "update_usage", instance=update)


def delete_allocations(run: Run) -> None:
    """Delete the allocations of the server and of its move, if the conductor writes them."""
    move = run.server.move
    allocations.delete(run, run.server.uuid, *((move.migration.uuid,) if move else ()))


DELETE = Table(
    kind="delete",
    steps=(
        Step(name="undefine", do=undefine),
        Step(name="cleanup", do=cleanup),
        Step(name="release", do=release),
        Step(name="allocations", do=delete_allocations),
    ),
    done=gone,
    only_forward=True,
)


KIND, CLEARING = "forced-delete", "clear-deleted"


def forced_progress(
    server: Server, reason: str, interrupted: ServerOperation | None = None
) -> Progress:
    """Return what a forced delete begins with.

    :param interrupted: the operation that it takes the place of.
    """
    found = list(places(server))
    migrations = [] if server.move is None else [server.move.migration.uuid]
    if interrupted is not None:
        progress = progress_of(interrupted.progress)
        found += [] if progress.source is None else [progress.source]
        found += [] if progress.selection is None else [progress.selected]
        migrations.append(migration_uuid(interrupted))
    return Progress(
        spec=server.spec,
        was=server.vm_state,
        places=tuple({each.claim["uuid"]: each for each in found}.values()),
        migrations=tuple(migrations),
        reason=reason,
    )


def instead_of(operation: ServerOperation, server: Server, reason: str) -> ServerOperation:
    """Return the forced delete that takes the place of an operation on a server."""
    return replace(
        operation,
        kind=KIND,
        step=FORCED_DELETE.steps[0].name,
        progress=forced_progress(server, reason, operation).document(),
        forward=True,
        error=None,
    )


def _clear_all(run: Run) -> None:
    """Clear every host. One that does not answer, or cannot be cleared, is cleared later."""
    for claims in by_host(run.progress.places).values():
        try:
            _undefine(run, claims)
            _cleanup(run, claims)
            _release(run, claims)
        except OperationTaken:
            raise
        except RtAgentError:
            owe(
                run,
                CLEAR_DELETED,
                f"{CLEARING} {claims[0].host}",
                source=claims[0],
                places=tuple(claims),
                reason=run.progress.reason,
            )


def _undefine(run: Run, claims: Sequence[Place]) -> None:
    """Remove the domain, before its claims are released."""
    run.undefine(*claims)


def _cleanup(run: Run, claims: Sequence[Place]) -> None:
    """Remove what the hooks made."""
    run.hook("cleanup", claims[0].host)


def _release(run: Run, claims: Sequence[Place]) -> None:
    """Report the deletion, which releases the claims and ends the moves.

    The call that makes a claim may still be on the way, so that the agent must hear of each one.
    """
    update = {"uuid": run.server.uuid, "vm_state": DELETED}
    for node in {place.node_uuid: place for place in claims}.values():
        run.end(node, "update_usage", instance=update)
    for place in claims:
        claim = place.claim["uuid"]
        released = run.id(f"release_claim {claim}")
        run.end(place, "release_claim", claim_uuid=claim, operation_id=released)


def _delete_allocations(run: Run) -> None:
    """Delete the allocations of the server and of its moves, if the conductor writes them."""
    allocations.delete(run, run.server.uuid, *run.progress.migrations)


FORCED_DELETE = Table(
    kind=KIND,
    steps=(Step(name="clear", do=_clear_all), Step(name="allocations", do=_delete_allocations)),
    done=gone,
    only_forward=True,
)


def _at_host(action: Callable[[Run, Sequence[Place]], None]) -> Callable[[Run], None]:
    """Return the step that takes an action on the host to clear."""
    return lambda run: action(run, run.progress.places)


CLEAR_DELETED = Table(
    kind=CLEARING,
    steps=(
        Step(name="undefine", do=_at_host(_undefine)),
        Step(name="cleanup", do=_at_host(_cleanup)),
        Step(name="release", do=_at_host(_release)),
    ),
    only_forward=True,
    alone=True,
)
