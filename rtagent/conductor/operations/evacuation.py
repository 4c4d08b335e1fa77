"""The operation evacuation, and clear-evacuated, which ends it at the host that has failed."""

from rtagent.conductor.engine import Step, Table
from rtagent.conductor.operations import allocations, hosts, moves
from rtagent.conductor.operations.resize import start_if_it_ran
from rtagent.conductor.run import Run

CLEARING = "clear-evacuated"


def begin_evacuation(run: Run) -> None:
    """Make the migration, and note what the server has allocated at its source."""
    moves.begin(run)
    if run.progress.allocations is None:
        run.learn(allocations=allocations.of(run))


def define_leased(run: Run) -> None:
    """Define the domain, unless the lease was lost meanwhile: others may have the claim's devices
    then, and what undoes this would remove these devices.
    """
    with run.renewing(run.progress.dest):
        hosts.define(run)


def arrive(run: Run) -> None:
    """Activate the claim, before the guest may start. `ClaimExpired` prevents the start."""
    dest = run.progress.dest
    run.learn(claim=run.agent(dest, "finish_evacuation", **moves.move_arguments(run)))


def report(run: Run) -> None:
    """Report the state. A separate operation clears the failed host when it is back."""
    run.report(run.progress.dest, run.progress.was, None)
    source, migration = run.progress.source, run.progress.migration
    hosts.owe(run, CLEAR_EVACUATED, CLEARING, source=source, migration=migration)


EVACUATION = Table(
    kind="evacuation",
    steps=(
        Step(name="begin", do=begin_evacuation),
        Step(name="select", do=hosts.select, undo=hosts.unselect),
        Step(name="claim", do=moves.claim_move, undo=moves.drop_at_destination),
        Step(name="prepare", do=hosts.prepare, undo=hosts.cleanup),
        Step(name="define", do=define_leased, undo=hosts.undefine),
        Step(name="arrive", do=arrive, final=True),
        Step(name="start", do=start_if_it_ran),
        Step(name="allocations", do=hosts.allocate),
        Step(name="report", do=report),
    ),
    done=moves.moved,
)


CLEAR_EVACUATED = Table(
    kind=CLEARING,
    steps=(
        Step(name="undefine", do=moves.undefine_source),
        Step(name="cleanup", do=moves.cleanup_source),
        Step(name="drop", do=moves.drop_at_source),
    ),
    only_forward=True,
    alone=True,
)
