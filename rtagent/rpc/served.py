"""What makes a function a method of the API."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import oslo_messaging
from oslo_context.context import RequestContext

from rtagent.errors import PlacementError, RequestError, Unavailable
from rtagent.rpc.methods import METHODS

_Served = TypeVar("_Served", bound=Callable[..., Any])


def served(handler: _Served) -> _Served:
    """A method of the API: its document is checked, its time and outcome are reported.

    The document's fields arrive as keywords, of any name; so what is ours is positional.
    """
    method = METHODS[handler.__name__]

    @functools.wraps(handler)
    @oslo_messaging.expected_exceptions(RequestError, Unavailable, PlacementError)
    def serve(endpoint: Any, context: RequestContext, /, **document: Any) -> Any:
        return endpoint._serve(method, handler, context, document)

    return serve  # type: ignore[return-value]
