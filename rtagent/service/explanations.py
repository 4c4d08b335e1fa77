"""Explanations: explains requests for the pages of a scheduler, one at a time."""

import threading
from collections.abc import Mapping
from typing import Any

from rtagent.errors import TooManyRequests
from rtagent.rpc.methods import SCHEDULER_API
from rtagent.rpc.scheduler_endpoint import Explain
from rtagent.rpc.schemas import validate
from rtagent.scheduler.explanation import Explanation
from rtagent.scheduler.select import Scheduler

#: Seconds for which a request waits for the one before it.
PATIENCE = 1.0


class Explanations:
    """Thread-safe. An explanation judges every host, and may wait for Placement. So the read API,
    which has few threads, makes one at a time.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._turn = threading.Lock()

    def explain(self, document: Mapping[str, Any]) -> Explanation:
        """Explain the arguments of the RPC method.

        :raises InvalidRequest: names each path that is wrong.
        :raises TooManyRequests: another request is being explained.
        :raises RtAgentError: as the RPC method.
        """
        arguments = validate(SCHEDULER_API.methods["explain"], document)
        assert isinstance(arguments, Explain)
        if not self._turn.acquire(timeout=PATIENCE):
            raise TooManyRequests(
                "another request is being explained: ask again", method="GET /page/explain", limit=1
            )
        try:
            if arguments.instance_uuid is None:
                return self._scheduler.explain(arguments.request_spec)
            return self._scheduler.explain(arguments.request_spec, arguments.instance_uuid)
        finally:
            self._turn.release()
