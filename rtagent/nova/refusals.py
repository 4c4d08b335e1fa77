"""Refusals: rtagent's errors in Nova's words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nova import exception
from oslo_log import log

from rtagent.errors import ComputeResourcesUnavailable, RtAgentError
from rtagent.model.decision import nova_reason

LOG = log.getLogger(__name__)


@contextmanager
def refusals(instance: Any, *, live: bool = False) -> Iterator[None]:
    """Raise Nova's error for a claim that is refused, or that cannot be decided.

    :param live: the claim is a live migration's.
    :raises exception.ComputeResourcesUnavailable:
    """
    try:
        yield
    except RtAgentError as error:
        LOG.info("Failed to claim: %s", error, instance=instance)
        reason = error.message
        if isinstance(error, ComputeResourcesUnavailable):
            reason = nova_reason(error.kwargs["reasons"], live_migration=live)
        raise exception.ComputeResourcesUnavailable(reason=reason) from error
