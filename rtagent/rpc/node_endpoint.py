"""The methods of the node and its service: audit, Placement, builds, drain, reports, ping."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta
from msgspec.structs import asdict

from rtagent import claims
from rtagent.claims import drain, undrain
from rtagent.errors import InvalidRequest, NodeNotReady
from rtagent.model.base import TIME, Count, Name, Text, made_from
from rtagent.model.change import Call
from rtagent.model.request import Arguments
from rtagent.model.store_restore import StoreRestore
from rtagent.ports import Service
from rtagent.reconcile import drift
from rtagent.rpc import replies
from rtagent.rpc.method import Change, rpc_method
from rtagent.rpc.replies import clock_text
from rtagent.rpc.roles import ANY, CONDUCTOR, OPERATOR, READER, SCHEDULER
from rtagent.rpc.served_agent import ServedAgent


class SetService(Change, frozen=True, kw_only=True):
    """Whether the scheduler may select the host."""

    disabled: bool
    disabled_reason: Name | None = None


class UpdateForcedDown(Arguments, frozen=True, kw_only=True):
    """:ivar forced_down: what the schedulers' database has. False: no longer."""

    forced_down: bool


class AcceptRestore(Change, frozen=True, kw_only=True):
    """:ivar revision: that of the restored database in the reply of `get_restore`."""

    revision: Count


@rpc_method(OPERATOR, errors=("HypervisorUnavailable", "TrackerBusy"), slow=True)
def update_available_resource(agent: ServedAgent, arguments: Arguments) -> replies.Audit:
    """Run an audit now and return its summary. Callers that wait at the same time share the next
    audit."""
    summary = agent.audit()
    return replies.Audit(**asdict(summary), sentence=str(summary))


@rpc_method(
    OPERATOR,
    errors=("PlacementError", "PlacementConflict", "PlacementUnavailable", "NodeNotReady"),
    slow=True,
)
def sync_placement(agent: ServedAgent, arguments: Arguments) -> replies.Mirrored:
    """Read Placement's records of this host again and correct every difference. The reply is sent
    when that is done. Callers that wait at the same time share the next synchronisation."""
    return replies.Mirrored(revision=agent.sync_placement())


@rpc_method(CONDUCTOR)
def build_failed(agent: ServedAgent, arguments: Change, call: Call) -> None:
    """Count a failed build: increment ``stats.failed_builds``."""
    agent.tracker.execute(claims.build_failed, call)


@rpc_method(CONDUCTOR)
def build_succeeded(agent: ServedAgent, arguments: Change, call: Call) -> None:
    """Report a successful build: reset ``stats.failed_builds`` to zero."""
    agent.tracker.execute(claims.build_succeeded, call)


@rpc_method(OPERATOR, by_position=("disabled_reason",), slow=True)
def set_service(agent: ServedAgent, arguments: SetService, call: Call) -> Service:
    """Disable the host for scheduling, with a reason, or enable it again."""
    host = agent.tracker.snapshot().node.host
    disabled, reason = arguments.disabled, arguments.disabled_reason
    agent.tracker.once(call, lambda: agent.registry.set_disabled(host, disabled, reason))
    return next(service for service in agent.registry.services() if service.host == host)


@rpc_method(SCHEDULER, cast=True)
def update_forced_down(agent: ServedAgent, arguments: UpdateForcedDown) -> None:
    """Record whether an operator has forced the host down. A scheduler casts it as the answer to a
    report that differs from the schedulers' database, if the agent has a database of its own. While
    the host is forced down, calls that create claims are refused."""
    host = agent.tracker.snapshot().node.host
    agent.registry.set_forced_down(host, arguments.forced_down)


@rpc_method(READER)
def get_restore(agent: ServedAgent, arguments: Arguments) -> replies.RestoredStore:
    """Return what may be missing from a database that went back in time, as when a backup is
    restored. Until that is accepted, calls that create claims are refused with ``StoreRestored``,
    and audits free nothing."""
    return _restored_store(agent, agent.tracker.restored)


@rpc_method(
    OPERATOR, errors=("RestoreNotFound", "HypervisorUnavailable", "NodeNotReady"), slow=True
)
def accept_restore(
    agent: ServedAgent, arguments: AcceptRestore, call: Call
) -> replies.RestoredStore:
    """Audit the host, so that everything that runs is counted; then accept the restored database,
    and create claims again."""
    restored = agent.tracker.restored
    if restored is not None:
        summary = agent.audit()
        if not summary.good:
            raise NodeNotReady(
                f"the database is not accepted, because the audit was not good: {summary}"
            )
    agent.tracker.accept_restore(arguments.revision, call)
    return _restored_store(agent, restored)


def _restored_store(agent: ServedAgent, restored: StoreRestore | None) -> replies.RestoredStore:
    return replies.RestoredStore(
        restore=restored,
        sentence="" if restored is None else str(restored),
        orphans=tuple(
            made_from(replies.Orphan, usage) for usage in drift.orphans(agent.tracker.snapshot())
        ),
    )


@rpc_method(ANY)
def ping(agent: ServedAgent, arguments: Arguments) -> replies.Pong:
    """Return the agent's version, host, node and start, the node's revision, the agent's uptime,
    and the time of its clock. It never needs a signature."""
    state = agent.tracker.snapshot()
    return replies.Pong(
        version=agent.version,
        host=state.node.host,
        node=state.node.hypervisor_hostname,
        revision=state.revision,
        uptime=agent.clock.monotonic() - agent.started,
        node_uuid=state.node.uuid,
        agent_uuid=agent.duplicates.me.agent_uuid,
        time=clock_text(agent.clock.now()),
    )


Time = Annotated[str, Meta(pattern=TIME, max_length=20)]


class DrainNode(Change, frozen=True, kw_only=True):
    """:ivar reason: for operators and callers.
    :ivar deadline: when the node should be empty, as ``2030-01-31T18:00:00Z``; null: there is no
        deadline. Nothing is stopped then.
    """

    reason: Text = ""
    deadline: Time | None = None


@rpc_method(OPERATOR, by_position=("reason",))
def drain_node(agent: ServedAgent, arguments: DrainNode, call: Call) -> replies.Draining:
    """Create no claims from now on: every call that would create one is refused with
    ``NodeDraining``. Activations, renewals, ends, moves to other hosts and reads go on. The drain
    lasts until ``undrain_node``, also over restarts. On a node that drains, replace reason and
    deadline."""
    agent.tracker.execute(drain, call, arguments.reason, _moment(arguments.deadline))
    return _draining(agent)


@rpc_method(OPERATOR)
def undrain_node(agent: ServedAgent, arguments: Change, call: Call) -> replies.Draining:
    """Create claims again."""
    agent.tracker.execute(undrain, call)
    return _draining(agent)


def _draining(agent: ServedAgent) -> replies.Draining:
    state = agent.tracker.snapshot()
    drain = state.drain
    return replies.Draining(
        node=state.node.hypervisor_hostname,
        draining=drain is not None,
        reason=drain.reason if drain else "",
        deadline=drain.deadline if drain else None,
        since=drain.since if drain else None,
        claims=len(state.claims),
    )


def _moment(text: str | None) -> datetime | None:
    """:raises InvalidRequest: there is no such day."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        rule = f"{text!r} is not a time: {error}"
        raise InvalidRequest.at("drain_node", "$.deadline", rule) from error


class ReportHostState(Arguments, frozen=True, kw_only=True):
    """What a scheduler needs.

    :ivar description: also what claims do not change. :ivar instances: also all instances.
    """

    description: bool = False
    instances: bool = False


@rpc_method(SCHEDULER, cast=True)
def report_host_state(agent: ServedAgent, arguments: ReportHostState) -> None:
    """Report the host to all schedulers, after a random part of ``[scheduler] report_jitter``. Cast
    it to one agent or to all: there is no reply."""
    agent.report_host(arguments.description, arguments.instances)
