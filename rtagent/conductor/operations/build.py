"""The operation build."""

from contextlib import suppress

from msgspec.structs import replace

from rtagent.conductor.engine import Step, Table
from rtagent.conductor.operations import hosts
from rtagent.conductor.run import Run
from rtagent.errors import RtAgentError
from rtagent.model.server import ACTIVE, BUILDING, ERROR, Server


def claim(run: Run) -> None:
    """Claim the resources. The claim's uuid is the operation id that the scheduler chose."""
    instance = run.instance(run.progress.spec, run.progress.was, "spawning")
    reply = run.agent(
        run.progress.selected, "instance_claim", instance=instance, **hosts.claim_arguments(run)
    )
    run.learn(claim=reply)


def release(run: Run) -> None:
    """Release the claim, and count a failed build."""
    place = run.progress.selected
    hosts.end_claim(run, place, "release_claim", claim_uuid=place.claim["uuid"])
    if run.progress.was != BUILDING:  # it is unshelved
        return
    with suppress(RtAgentError):  # it feeds statistics only
        run.agent(place, "build_failed")


def activate(run: Run) -> None:
    """Activate the claim, before the guest may start. `ClaimExpired` prevents the start."""
    dest = run.progress.dest
    run.learn(claim=run.agent(dest, "activate_claim", claim_uuid=dest.claim["uuid"]))


def report(run: Run) -> None:
    """Report the new state and a successful build."""
    dest = run.progress.dest
    run.report(dest, ACTIVE, None)
    with suppress(RtAgentError):  # it feeds statistics only
        run.agent(dest, "build_succeeded")


def _done(run: Run) -> Server:
    zone = run.progress.spec.availability_zone  # that of an unshelved server may be new
    return replace(
        run.server,
        spec=replace(run.server.spec, force_hosts=(), force_nodes=(), availability_zone=zone),
        vm_state=ACTIVE,
        task_state=None,
        place=run.progress.dest,
    )


def _failed(run: Run) -> Server:
    return replace(run.server, vm_state=ERROR, task_state=None)


BUILD = Table(
    kind="build",
    steps=(
        Step(name="select", do=hosts.select, undo=hosts.unselect),
        Step(name="claim", do=claim, undo=release),
        Step(name="prepare", do=hosts.prepare, undo=hosts.cleanup),
        Step(name="activate", do=activate),
        Step(name="define", do=hosts.define, undo=hosts.undefine),
        Step(name="start", do=hosts.start),
        Step(name="report", do=report),
    ),
    done=_done,
    failed=_failed,
)
