"""Filter: the base class of the filters (entry points ``rtagent.scheduler.filters``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rtagent.conf.filter_scheduler import FilterOptions
from rtagent.errors import InvalidRequest
from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.request import Rejection, Request

__all__ = ["Check", "Filter", "Rejection"]

#: Judges one host: None if it passes. It may have a method ``undecided``, which returns those of
#: several hosts that have to be judged, because the others are known to pass.
Check = Callable[[HostState], Rejection | None]


class Filter:
    """A rule that refuses hosts.

    A filter is stateless and pure. An error that a check raises sets the host aside for this
    request, with the error as its rejection; other hosts go on.

    :ivar cost: filters run in order of their cost, and of the option among equals: 0 reads some
        fields, 1 reads aggregates or instances, 2 fits a claim.
    :ivar every_instance: its verdict may change while several instances of one request are
        selected, so it judges a consumed host again. Other filters judge a host once a request.
    :ivar every_host: with ``every_instance``: a selection may change its verdict on any host, so it
        judges all hosts again.
    """

    cost: ClassVar[int] = 0
    every_instance: ClassVar[bool] = False
    every_host: ClassVar[bool] = False

    def __init__(self, options: FilterOptions) -> None:
        self.options = options

    @property
    def name(self) -> str:
        """The name in options, logs and `explain`."""
        return type(self).__name__

    def prepare(self, request: Request) -> Check | None:
        """Return the check of this request, with everything computed that hosts have in common;
        None: the request asks for nothing that this filter judges, so every host passes.

        :raises InvalidRequest: the request itself is wrong, so no host is searched.
        """
        raise NotImplementedError


def invalid(path: str, message: str) -> InvalidRequest:
    """Return the error of a request whose field breaks a rule of a filter.

    :param path: of the field in the request spec, like ``.scheduler_hints.query``.
    """
    errors = [{"path": f"$.request_spec{path}", "message": message}]
    return InvalidRequest(method="select_destinations", errors=errors)
