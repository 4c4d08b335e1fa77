"""Placement over HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, TypedDict, TypeVar

import msgspec
import requests
from keystoneauth1 import exceptions
from keystoneauth1.adapter import Adapter
from oslo_context import context

from rtagent.errors import PlacementConflict, PlacementError, PlacementUnavailable
from rtagent.placement import codes
from rtagent.placement.provider import CUSTOM

#: Pinned, so that an answer means the same on every server. The lowest that has what is used here:
#: 1.20 a created provider is answered, 1.23 error codes, 1.26 all of a class may be reserved. Every
#: Placement since Rocky serves it.
MICROVERSION = "1.26"

#: Statuses that pass by themselves or when the token is mended.
PASSING = frozenset(
    {HTTPStatus.UNAUTHORIZED, HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}
)

_NO_ANSWER = (
    exceptions.ConnectionError,
    exceptions.AuthorizationFailure,
    exceptions.CatalogException,
    exceptions.DiscoveryFailure,
    exceptions.Unauthorized,
    exceptions.HttpServerError,
)

T = TypeVar("T")


class _Provider(TypedDict):
    uuid: str
    name: str
    generation: int


class _Providers(TypedDict):
    resource_providers: list[_Provider]


class _Record(TypedDict):
    total: int
    reserved: int
    min_unit: int
    max_unit: int
    step_size: int
    allocation_ratio: float


class _Inventories(TypedDict):
    inventories: dict[str, _Record]
    resource_provider_generation: int


class _Names(TypedDict):
    traits: list[str]


class _Traits(_Names):
    resource_provider_generation: int


class _Allocations(TypedDict):
    allocations: dict[str, dict[str, Any]]


class HttpPlacement:
    """A `PlacementAPI` over a keystoneauth1 adapter; one thread at a time.

    The thread's request context, where it has one, names the requests in Placement's log.
    """

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter

    def provider(self, uuid: str) -> Mapping[str, Any] | None:
        response = self._answer("GET", f"/resource_providers/{uuid}")
        if response.status_code == HTTPStatus.NOT_FOUND:
            return None
        return _decoded(_checked(response), _Provider)

    def provider_named(self, name: str) -> Mapping[str, Any] | None:
        response = self._answer("GET", "/resource_providers", params={"name": name})
        found = _decoded(_checked(response), _Providers)["resource_providers"]
        return found[0] if found else None

    def create_provider(self, uuid: str, name: str, parent: str | None = None) -> Mapping[str, Any]:
        body = {"uuid": uuid, "name": name, "parent_provider_uuid": parent}
        return _decoded(_checked(self._answer("POST", "/resource_providers", body)), _Provider)

    def delete_provider(self, uuid: str) -> None:
        response = self._answer("DELETE", f"/resource_providers/{uuid}")
        if response.status_code != HTTPStatus.NOT_FOUND:
            _checked(response)

    def inventories(self, uuid: str) -> Mapping[str, Any]:
        return _decoded(self._of_provider("GET", uuid, "inventories"), _Inventories)

    def put_inventories(
        self, uuid: str, generation: int, inventories: Mapping[str, Mapping[str, Any]]
    ) -> int:
        body = {"resource_provider_generation": generation, "inventories": inventories}
        answer = _decoded(self._of_provider("PUT", uuid, "inventories", body), _Inventories)
        return answer["resource_provider_generation"]

    def traits(self, uuid: str) -> Mapping[str, Any]:
        return _decoded(self._of_provider("GET", uuid, "traits"), _Traits)

    def put_traits(self, uuid: str, generation: int, traits: Sequence[str]) -> int:
        body = {"resource_provider_generation": generation, "traits": traits}
        answer = _decoded(self._of_provider("PUT", uuid, "traits", body), _Traits)
        return answer["resource_provider_generation"]

    def ensure_traits(self, names: Sequence[str]) -> frozenset[str]:
        response = self._answer("GET", "/traits", params={"name": f"in:{','.join(names)}"})
        known = frozenset(_decoded(_checked(response), _Names)["traits"])
        custom = frozenset(name for name in names if name.startswith(CUSTOM))
        for name in sorted(custom - known):
            _checked(self._answer("PUT", f"/traits/{name}"))
        return known | custom

    def ensure_classes(self, names: Sequence[str]) -> None:
        for name in names:
            if name.startswith(CUSTOM):
                _checked(self._answer("PUT", f"/resource_classes/{name}"))

    def allocations(self, uuid: str) -> Mapping[str, Any]:
        return _decoded(self._of_provider("GET", uuid, "allocations"), _Allocations)

    def _of_provider(
        self, method: str, uuid: str, part: str, body: Mapping[str, Any] | None = None
    ) -> requests.Response:
        response = self._answer(method, f"/resource_providers/{uuid}/{part}", body)
        if response.status_code == HTTPStatus.NOT_FOUND:
            raise PlacementConflict(f"provider {uuid} is gone: {_detail(response)}")
        return _checked(response)

    def _answer(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, str] | None = None,
    ) -> requests.Response:
        current = context.get_current()
        try:
            return self._adapter.request(
                path,
                method,
                json=body,
                params=params or {},
                raise_exc=False,
                microversion=MICROVERSION,
                microversion_service_type="placement",
                global_request_id=current.global_id if current else context.generate_request_id(),
            )
        except _NO_ANSWER as exc:
            raise PlacementUnavailable(f"{method} {path}: {exc}") from exc
        except exceptions.ClientException as exc:
            raise PlacementError(f"{method} {path}: {exc}") from exc


def _checked(response: requests.Response) -> requests.Response:
    """The answer, if it is a success.

    :raises PlacementConflict: PlacementUnavailable: PlacementError: by its status and code.
    """
    status = response.status_code
    if status < HTTPStatus.BAD_REQUEST:
        return response
    asked = f"{response.request.method} {response.request.path_url}"
    data = {
        "detail": f"{asked} answered {status}: {_detail(response)}",
        "status": status,
        "code": _error(response).get("code", codes.UNDEFINED),
    }
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in PASSING:
        raise PlacementUnavailable(**data)
    # A class that went in the midst of a PUT is a 409 without a code of its own.
    moved = data["code"] in {codes.CONCURRENT_UPDATE, codes.UNDEFINED}
    if status == HTTPStatus.CONFLICT and moved:
        raise PlacementConflict(**data)
    raise PlacementError(**data)


def _error(response: requests.Response) -> Mapping[str, Any]:
    """Placement's own account of an error; {} when it comes from something before Placement."""
    try:
        errors = response.json()["errors"]
        return dict(errors[0])
    except (ValueError, KeyError, IndexError, TypeError):
        return {}


def _detail(response: requests.Response) -> str:
    """One line."""
    told = _error(response).get("detail") or response.reason or response.text[:200]
    return " ".join(str(told).split())


def _decoded(response: requests.Response, shape: type[T]) -> T:
    try:
        return msgspec.json.decode(response.content, type=shape)
    except msgspec.MsgspecError as exc:
        raise PlacementError(f"{response.url} does not answer as Placement does: {exc}") from exc
