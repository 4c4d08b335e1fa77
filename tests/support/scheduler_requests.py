"""Requests to the scheduler, and the verdicts of filters on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rtagent.model.flavor import Flavor
from rtagent.model.request_spec import ImageRequest, InstanceGroup, RequestSpec
from rtagent.scheduler.filter import Filter
from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.options import FilterOptions
from rtagent.scheduler.request import Request
from tests.support.host_states import SEEN
from tests.support.hosts import NOON, uid

#: The instance of every request that does not name another.
INSTANCE = uid(1)


def scheduler_request(
    *,
    extra_specs: Mapping[str, str] | None = None,
    flavor: str = "m1.small",
    image: Mapping[str, str] | None = None,
    image_id: str | None = None,
    hints: Mapping[str, Any] | None = None,
    group: InstanceGroup | None = None,
    instance_uuid: str = INSTANCE,
    placement: bool = False,
    **fields: Any,
) -> Request:
    """Make a request for one instance with 1 vCPU and 512 MB, by default nothing more.

    :param image: properties. :param fields: any other field of `RequestSpec`.
    """
    spec = RequestSpec(
        flavor=Flavor(vcpus=1, memory_mb=512, name=flavor, extra_specs=extra_specs or {}),
        image=ImageRequest(id=image_id, properties=image or {}),
        scheduler_hints=hints,
        instance_group=group,
        **fields,
    )
    return Request(
        spec=spec, instance_uuid=instance_uuid, alive_since=SEEN, now=NOON, placement=placement
    )


def why_not(kind: type[Filter], host: HostState, request: Request, **options: Any) -> str:
    """Return why a filter refuses a host; "": the host passes."""
    check = kind(FilterOptions(**options)).prepare(request)
    rejection = check(host) if check is not None else None
    return "" if rejection is None else rejection.message


def passes(kind: type[Filter], host: HostState, request: Request, **options: Any) -> bool:
    """Whether a host passes a filter."""
    return not why_not(kind, host, request, **options)
