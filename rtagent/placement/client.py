"""HttpPlacement: the client of the Placement API, its error, and the request id: the id of the call
that caused a request.

oslo.context keeps the context of each thread. `HttpPlacement` sends its global request id as
``X-Openstack-Request-Id``, so Placement's log has it, and so have the agent's own log lines.
"""

from collections.abc import Mapping, Sequence, Set
from contextlib import nullcontext
from http import HTTPStatus
from typing import Any, Required, TypedDict, TypeVar

import msgspec
import os_traits
import requests
from keystoneauth1 import exceptions
from keystoneauth1.adapter import Adapter
from oslo_context import context

from rtagent.errors import PlacementConflict, PlacementError, PlacementUnavailable
from rtagent.placement.provider import CUSTOM

#: The lowest that has what is used here: 1.28 has generations of consumers, 1.30 the reshaper, 1.38
#: types of consumers. Every Placement since Xena supports it.
MICROVERSION = "1.38"

#: The trait of a provider whose inventory the providers in its aggregates share.
SHARING = os_traits.MISC_SHARES_VIA_AGGREGATE

#: Codes that distinguish refusals (``errors[0].code``).
CONCURRENT_UPDATE = "placement.concurrent_update"
DUPLICATE_NAME = "placement.duplicate_name"
INVENTORY_IN_USE = "placement.inventory.inuse"
PROVIDER_IN_USE = "placement.resource_provider.inuse"
#: The code of refusals without one of their own.
UNDEFINED = "placement.undefined_code"

#: Client errors that end by themselves or once the credentials are valid.
TRANSIENT = frozenset(
    {HTTPStatus.UNAUTHORIZED, HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}
)

_NO_RESPONSE = (
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
    parent_provider_uuid: str | None


class _Providers(TypedDict):
    resource_providers: list[_Provider]


class _InventoryRecord(TypedDict):
    total: int
    reserved: int
    min_unit: int
    max_unit: int
    step_size: int
    allocation_ratio: float


class _Generation(TypedDict):
    resource_provider_generation: int


class _Inventories(_Generation):
    inventories: dict[str, _InventoryRecord]


class _Names(TypedDict):
    traits: list[str]


class _Traits(_Names, _Generation):
    """Those of a provider."""


class _Allocations(TypedDict):
    allocations: dict[str, dict[str, Any]]


class _Aggregates(_Generation):
    aggregates: list[str]


class _Consumer(TypedDict, total=False):
    """A consumer without allocations has no other key than `allocations`."""

    allocations: Required[dict[str, dict[str, Any]]]
    consumer_generation: int
    consumer_type: str
    project_id: str
    user_id: str


class _Summary(TypedDict):
    root_provider_uuid: str


class _Candidates(TypedDict):
    allocation_requests: list[dict[str, Any]]
    provider_summaries: dict[str, _Summary]


class _Version(TypedDict):
    min_version: str
    max_version: str


class _Versions(TypedDict):
    versions: list[_Version]


_AGGREGATES = msgspec.json.Decoder(_Aggregates)
_ALLOCATIONS = msgspec.json.Decoder(_Allocations)
_CANDIDATES = msgspec.json.Decoder(_Candidates)
_CONSUMER = msgspec.json.Decoder(_Consumer)
_GENERATION = msgspec.json.Decoder(_Generation)
_INVENTORIES = msgspec.json.Decoder(_Inventories)
_NAMES = msgspec.json.Decoder(_Names)
_PROVIDER = msgspec.json.Decoder(_Provider)
_PROVIDERS = msgspec.json.Decoder(_Providers)
_TRAITS = msgspec.json.Decoder(_Traits)
_VERSIONS = msgspec.json.Decoder(_Versions)


class HttpPlacement:
    """Placement's HTTP API over a keystoneauth1 adapter, for one thread at a time. Each call is one
    request, except that `ensure_traits` sends one more for each new trait, and `ensure_classes` one
    for each class.

    Requests carry the request id of the thread's context, if it has one, for Placement's log.

    :raises PlacementConflict: the generation of the provider has changed, or it was deleted.
    :raises PlacementUnavailable: no answer, 5xx, or a refused token.
    :raises PlacementError: any other failure; ``code`` in kwargs is Placement's error code.
    """

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter

    def microversions(self) -> tuple[str, str]:
        """Return the lowest and the highest microversion that the server supports.

        :raises PlacementUnavailable: there is no response.
        :raises PlacementError: the response is not Placement's.
        """
        found = _decoded(_checked(self._request("GET", "/")), _VERSIONS)["versions"]
        if not found:
            raise PlacementError("Placement lists no API version")
        return found[0]["min_version"], found[0]["max_version"]

    def may_reshape(self) -> bool:
        """Return whether Placement lets this user reshape. Nothing is changed.

        :raises PlacementError: it does not answer, or does not accept the credentials.
        """
        # Placement checks the permission before it refuses the empty request.
        response = self._request("POST", "/reshaper", {})
        if response.status_code not in (HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN):
            _checked(response)
        return response.status_code != HTTPStatus.FORBIDDEN

    def provider(self, uuid: str) -> Mapping[str, Any] | None:
        """``GET /resource_providers/{uuid}``: the provider, or None."""
        response = self._request("GET", f"/resource_providers/{uuid}")
        if _is_absent(response):
            return None
        return _decoded(_checked(response), _PROVIDER)

    def provider_named(self, name: str) -> Mapping[str, Any] | None:
        """``GET /resource_providers?name=``: the provider of that name, or None."""
        found = self._providers({"name": name})
        return found[0] if found else None

    def create_provider(self, uuid: str, name: str, parent: str | None = None) -> Mapping[str, Any]:
        """``POST /resource_providers``: the provider as created.

        :raises PlacementError: with the code of a duplicate: the name or the uuid exists.
        """
        body = {"uuid": uuid, "name": name, "parent_provider_uuid": parent}
        return _decoded(_checked(self._request("POST", "/resource_providers", body)), _PROVIDER)

    def delete_provider(self, uuid: str) -> None:
        """``DELETE /resource_providers/{uuid}``. A provider that does not exist is not an error.

        :raises PlacementError: with the code of a provider in use: it has allocations.
        """
        response = self._request("DELETE", f"/resource_providers/{uuid}")
        if not _is_absent(response):
            _written(response)

    def inventories(self, uuid: str) -> Mapping[str, Any]:
        """Return ``{"inventories": {class: {...}}, "resource_provider_generation"}``."""
        return _decoded(self._of_provider("GET", uuid, "inventories"), _INVENTORIES)

    def put_inventories(
        self, uuid: str, generation: int, inventories: Mapping[str, Mapping[str, Any]]
    ) -> int:
        """Replace all. Return the new generation."""
        return self._replaced(uuid, generation, "inventories", inventories)

    def traits(self, uuid: str) -> Mapping[str, Any]:
        """Return ``{"traits": [...], "resource_provider_generation"}``."""
        return _decoded(self._of_provider("GET", uuid, "traits"), _TRAITS)

    def put_traits(self, uuid: str, generation: int, traits: Sequence[str]) -> int:
        """Replace all. Return the new generation."""
        return self._replaced(uuid, generation, "traits", traits)

    def ensure_traits(self, names: Sequence[str]) -> frozenset[str]:
        """Create the missing CUSTOM_* traits. Return those of `names` that exist afterwards."""
        response = self._request("GET", "/traits", params={"name": f"in:{','.join(names)}"})
        known = frozenset(_decoded(_checked(response), _NAMES)["traits"])
        custom = frozenset(name for name in names if name.startswith(CUSTOM))
        for name in sorted(custom - known):
            _written(self._request("PUT", f"/traits/{name}"))
        return known | custom

    def ensure_classes(self, names: Sequence[str]) -> None:
        """Create the missing CUSTOM_* resource classes among `names`."""
        for name in names:
            if name.startswith(CUSTOM):
                _written(self._request("PUT", f"/resource_classes/{name}"))

    def allocations(self, uuid: str) -> Mapping[str, Any]:
        """Return ``{"allocations": {consumer: {...}}}`` of a provider."""
        return _decoded(self._of_provider("GET", uuid, "allocations"), _ALLOCATIONS)

    def consumer(self, uuid: str) -> Mapping[str, Any]:
        """``GET /allocations/{uuid}``: the allocations of a consumer by provider, its generation,
        type, project and user; ``{"allocations": {}}`` if it has none.
        """
        response = self._request("GET", f"/allocations/{uuid}")
        consumer = _decoded(_checked(response), _CONSUMER)
        return dict(consumer)

    def put_consumer(self, uuid: str, content: Mapping[str, Any]) -> None:
        """``PUT /allocations/{uuid}``: replace all allocations of a consumer.

        :raises PlacementConflict: the consumer has another generation, or a provider has too little
            left.
        """
        _written(self._request("PUT", f"/allocations/{uuid}", content))

    def post_consumers(self, contents: Mapping[str, Mapping[str, Any]]) -> None:
        """``POST /allocations``: replace all allocations of several consumers, or none.

        :raises PlacementConflict: as `put_consumer`.
        """
        _written(self._request("POST", "/allocations", contents))

    def allocation_candidates(self, query: Sequence[tuple[str, str]]) -> _Candidates:
        """``GET /allocation_candidates``. :param query: a name may be repeated."""
        response = self._request("GET", "/allocation_candidates", params=query)
        return _decoded(_checked(response), _CANDIDATES)

    def reshape(
        self,
        inventories: Mapping[str, Mapping[str, Any]],
        allocations: Mapping[str, Mapping[str, Any]],
    ) -> None:
        """``POST /reshaper``: replace all inventories of these providers and all allocations of
        these consumers together, or nothing.

        :raises PlacementConflict: a provider or a consumer has another generation.
        """
        body = {"inventories": inventories, "allocations": allocations}
        _written(self._request("POST", "/reshaper", body))

    def tree(self, uuid: str) -> Sequence[Mapping[str, Any]]:
        """``GET /resource_providers?in_tree=``: all providers of the tree that has this one."""
        return self._providers({"in_tree": uuid})

    def aggregates(self, uuid: str) -> frozenset[str]:
        """Return the aggregates of a provider."""
        return frozenset(self.provider_aggregates(uuid)["aggregates"])

    def provider_aggregates(self, uuid: str) -> Mapping[str, Any]:
        """Return the aggregates of a provider, with its generation."""
        return _decoded(self._of_provider("GET", uuid, "aggregates"), _AGGREGATES)

    def put_aggregates(self, uuid: str, generation: int, aggregates: Sequence[str]) -> int:
        """Replace the aggregates of a provider. Return its new generation."""
        return self._replaced(uuid, generation, "aggregates", aggregates)

    def sharing_providers(self, aggregates: Set[str]) -> Sequence[Mapping[str, Any]]:
        """Return the providers in any of these aggregates that share their inventory with them."""
        uuids = f"in:{','.join(sorted(aggregates))}"
        return self._providers({"member_of": uuids, "required": SHARING}) if aggregates else []

    def _providers(self, query: Mapping[str, str]) -> Sequence[Mapping[str, Any]]:
        response = self._request("GET", "/resource_providers", params=query)
        return _decoded(_checked(response), _PROVIDERS)["resource_providers"]

    def _replaced(self, uuid: str, generation: int, part: str, content: object) -> int:
        """Replace a part of a provider. Return the provider's new generation."""
        body = {"resource_provider_generation": generation, part: content}
        answer = _decoded(self._of_provider("PUT", uuid, part, body), _GENERATION)
        return answer["resource_provider_generation"]

    def _of_provider(
        self, method: str, uuid: str, part: str, body: Mapping[str, Any] | None = None
    ) -> requests.Response:
        response = self._request(method, f"/resource_providers/{uuid}/{part}", body)
        if _is_absent(response):
            raise PlacementConflict(f"provider {uuid} is gone: {_detail(response)}")
        return _checked(response)

    def _request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, str] | Sequence[tuple[str, str]] | None = None,
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
                # The adapter's own semaphore also waits until the time of day is later than its
                # creation: if the clock was set back by days, it waits for days.
                rate_semaphore=nullcontext(),
            )
        except _NO_RESPONSE as exc:
            raise PlacementUnavailable(f"{method} {path}: {exc}") from exc
        except exceptions.ClientException as exc:
            raise PlacementError(f"{method} {path}: {exc}") from exc


def _checked(response: requests.Response) -> requests.Response:
    """Return the response if it is a success.

    :raises PlacementConflict: :raises PlacementUnavailable: :raises PlacementError: depending on
        its status and code.
    """
    status = response.status_code
    if status < HTTPStatus.BAD_REQUEST:
        return response
    request = f"{response.request.method} {response.request.path_url}"
    data = {
        "detail": f"{request} answered {status}: {_detail(response)}",
        "status": status,
        "code": _error(response).get("code", UNDEFINED),
    }
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in TRANSIENT:
        raise PlacementUnavailable(**data)
    # A resource class that is deleted during a PUT gives a 409 without a code of its own.
    concurrent = data["code"] in {CONCURRENT_UPDATE, UNDEFINED}
    if status == HTTPStatus.CONFLICT and concurrent:
        raise PlacementConflict(**data)
    raise PlacementError(**data)


def _is_absent(response: requests.Response) -> bool:
    """Whether Placement says that it does not have a provider. A proxy that does not find Placement
    answers 404, too.
    """
    return response.status_code == HTTPStatus.NOT_FOUND and bool(_error(response))


def _written(response: requests.Response) -> None:
    """Check that Placement has executed a write whose answer has no content.

    :raises PlacementError: as `_checked`, or something else than Placement has answered.
    """
    if _checked(response).status_code not in (HTTPStatus.CREATED, HTTPStatus.NO_CONTENT):
        raise PlacementError(f"{response.url} answered {response.status_code} to a write")


def _error(response: requests.Response) -> Mapping[str, Any]:
    """Return Placement's description of an error; {} if a proxy, say, sent the response."""
    try:
        return dict(response.json()["errors"][0])
    except (ValueError, KeyError, IndexError, TypeError):
        return {}


def _detail(response: requests.Response) -> str:
    """Return the reason for a refusal, in one line."""
    detail = _error(response).get("detail") or response.reason or response.text[:200]
    return " ".join(str(detail).split())


def _decoded(response: requests.Response, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        return decoder.decode(response.content)
    except msgspec.MsgspecError as exc:
        raise PlacementError(f"{response.url} is not a response of Placement: {exc}") from exc


def use_request_id(request_id: str) -> None:
    """Make requests of this thread carry this global request id until the next use.

    :param request_id: of the call that caused them; "": none did, and they get a new id.
    """
    sendable = request_id.isascii() and request_id.isprintable()  # in an HTTP header
    context.RequestContext(global_request_id=request_id if sendable and request_id else None)


def current_request_id() -> str:
    """Return the global request id of this thread's context; "": it has none."""
    current = context.get_current()
    return current.global_id if current else ""
