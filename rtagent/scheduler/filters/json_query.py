"""JsonFilter: hosts that satisfy the query of the request."""

from __future__ import annotations

from rtagent.scheduler.filter import Check, Filter, Rejection, invalid
from rtagent.scheduler.queries import parse_query
from rtagent.scheduler.request import Request


class JsonFilter(Filter):
    """Refuse a host that does not satisfy the hint ``query``, see `rtagent.scheduler.queries`."""

    cost = 1
    every_instance = True

    def prepare(self, request: Request) -> Check | None:
        """Judge requests with the hint.

        :raises InvalidRequest: the query is malformed.
        """
        queries = request.spec.hint("query")
        if not queries:
            return None
        if len(queries) > 1:
            raise invalid(".scheduler_hints.query", "must be one query")
        condition = parse_query(queries[0])
        rejection = Rejection("it does not satisfy the hint query")

        return lambda host: None if condition(host) else rejection
