"""Nova's requests for PCI devices as rtagent's documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from rtagent.model.base import Value
from rtagent.model.request import Allocation, Allocations, PciRequest, ProviderMapping

#: The key of a request's specifications with the providers that Placement allocated.
_PROVIDERS = "rp_uuids"


class DeviceRequests(Value, frozen=True, kw_only=True):
    """The requests of an instance.

    :ivar allocations: of devices, by provider uuid; None: Placement has none for them.
    :ivar provider_mapping: the providers of each request that Placement has allocations for.
    """

    requests: tuple[PciRequest, ...] = ()
    allocations: Allocations | None = None
    provider_mapping: ProviderMapping = {}


def device_requests(nova: Any, classes: Mapping[str, str]) -> DeviceRequests:
    """Return the requests of an InstancePCIRequests, or of None.

    :param classes: the resource class of each provider of devices, by uuid.
    """
    requests = list(nova.requests) if nova else []
    mapping = {request_id(each): tuple(_providers(each)) for each in requests if _providers(each)}
    numbers = Counter(uuid for uuids in mapping.values() for uuid in uuids)
    return DeviceRequests(
        requests=tuple(map(_request, requests)),
        allocations={
            uuid: Allocation(resources={classes[uuid]: number})
            for uuid, number in numbers.items()
            if uuid in classes
        }
        if mapping
        else None,
        provider_mapping={key: tuple(dict.fromkeys(uuids)) for key, uuids in mapping.items()},
    )


def request_id(nova: Any) -> str:
    """Return by what the devices of a request are recognised."""
    return str(nova.request_id or nova.alias_name)


def _request(nova: Any) -> PciRequest:
    return PciRequest(
        count=nova.count,
        request_id=request_id(nova),
        alias_name=nova.alias_name,
        spec=tuple(dict(_spec(spec)) for spec in nova.spec),
        numa_policy=nova.numa_policy,
        # Of a flavor, too: the conductor has replaced the flavor's aliases by such documents.
        source="neutron_port",
        requester_id=nova.requester_id if "requester_id" in nova else None,
    )


def _spec(nova: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    for key, value in nova.items():
        if key != _PROVIDERS:
            yield key, None if value is None else str(value)


def _providers(nova: Any) -> list[str]:
    """Return the provider of each device of a request."""
    uuids = nova.spec[0].get(_PROVIDERS) if nova.spec else None
    return uuids.split(",") if uuids else []
