"""The operation owed-call: a call to a host that did not answer, repeated until it does."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from rtagent.conductor.progress import Progress
from rtagent.conductor.run import Run
from rtagent.conductor.step import Step, Table
from rtagent.model.server import Place, Server, ServerOperation

KIND = "owed-call"


def owe(run: Run, place: Place, method: str, arguments: Mapping[str, Any]) -> None:
    """Record a call with the next step. It is made when its host answers again."""
    now, progress = run.operation.updated_at, run.progress
    owed = Progress(
        spec=progress.spec, was=progress.was, source=place, call=(method, dict(arguments))
    )
    run.owed.append(
        ServerOperation(
            uuid=str(uuid.uuid5(UUID(run.operation.uuid), f"owed {arguments['operation_id']}")),
            server_uuid=run.server.uuid,
            kind=KIND,
            step=OWED_CALL.steps[0].name,
            created_at=now,
            updated_at=now,
            progress=owed.document(),
        )
    )


def _call(run: Run) -> None:
    source, call = run.progress.source, run.progress.call
    assert source is not None
    assert call is not None
    method, arguments = call
    run.end(source, method, **arguments)


def _server(run: Run) -> Server:
    return run.server


OWED_CALL = Table(
    kind=KIND,
    steps=(Step(name="call", do=_call),),
    done=_server,
    failed=_server,
    only_forward=True,
    alone=True,
)
