"""The operation delete. It is never undone."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from rtagent.conductor.engine import Step, Table, gone
from rtagent.conductor.operations import allocations
from rtagent.conductor.run import Run
from rtagent.model.server import DELETED, Place, Server


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
