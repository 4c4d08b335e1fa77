"""OpenStack Placement over HTTP, with a log of the requests that it has served."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from keystoneauth1 import adapter, session, token_endpoint

from tests.servers.server import Server, accepts, free_port


class Request(NamedTuple):
    """One line of the access log. :ivar path: with the query. :ivar status: of HTTP.
    :ivar request_id: the client's global request id, or "".
    """

    method: str
    path: str
    status: int
    request_id: str = ""


class Placement(Server):
    """Placement on SQLite, unless it is given a database of a server: SQLite refuses concurrent
    writers. The token ``admin`` has the rights of an administrator.
    """

    name = "placement"
    forked = True
    token = "admin"

    def __init__(self) -> None:
        super().__init__()
        self.port = free_port()
        self._access = self.directory / "access"
        self._database_url = f"sqlite:///{self.directory}/placement.db"

    def use(self, database_url: str) -> None:
        """Set the database, which is empty, before the first start."""
        self._database_url = database_url

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def prepare(self) -> None:
        self._access.touch()

    def command(self) -> Sequence[str]:
        return ["tests.servers.placement_app", str(self.port), str(self._access)]

    def environment(self) -> Mapping[str, str]:
        return {
            "OS_API__AUTH_STRATEGY": "noauth2",
            "OS_PLACEMENT_DATABASE__CONNECTION": self._database_url,
            "OS_PLACEMENT_DATABASE__SYNC_ON_STARTUP": "true",
        }

    def answers(self) -> bool:
        return accepts(self.port)

    @property
    def login(self) -> dict[str, object]:
        """The options of ``[placement]`` with which an agent is an administrator."""
        return {"auth_type": "admin_token", "endpoint": self.url, "token": self.token}

    def tree(self, root: str) -> list[dict[str, Any]]:
        """The providers of a tree."""
        found = self.client().get(f"/resource_providers?in_tree={root}").json()
        providers: list[dict[str, Any]] = found["resource_providers"]
        return providers

    def remove_tree(self, root: str) -> None:
        """Remove the providers of a tree with what is allocated from them: names are free again."""
        client = self.client()
        for each in sorted(self.tree(root), key=lambda each: each["parent_provider_uuid"] is None):
            path = f"/resource_providers/{each['uuid']}"
            for consumer in client.get(f"{path}/allocations").json()["allocations"]:
                assert client.delete(f"/allocations/{consumer}").status_code == 204
            assert client.delete(path).status_code == 204

    def inventories(self, provider: str) -> dict[str, Any]:
        """The inventories of a provider, by class; {}: there is no provider."""
        found = self.client().get(f"/resource_providers/{provider}/inventories").json()
        inventories: dict[str, Any] = found.get("inventories", {})
        return inventories

    def allocations(self, consumer: str) -> dict[str, dict[str, int]]:
        """What a consumer has, by provider and class."""
        found = self.client().get(f"/allocations/{consumer}").json()["allocations"]
        return {uuid: part["resources"] for uuid, part in found.items()}

    def client(self, microversion: str = "1.39") -> adapter.Adapter:
        """Return an HTTP client with the rights of an administrator.

        ``client().get("/resource_providers").json()``
        """
        auth = token_endpoint.Token(self.url, self.token)
        return adapter.Adapter(
            session.Session(auth=auth),
            service_type="placement",
            default_microversion=microversion,
            raise_exc=False,
        )

    def allocate(
        self, consumer: str, parts: Mapping[str, Mapping[str, int]], **more: object
    ) -> int:
        """Allocate for a new consumer, as a scheduler does. Return the HTTP status.

        :param parts: by provider and resource class. :param more: fields of the request.
        """
        body = {
            "allocations": {uuid: {"resources": dict(part)} for uuid, part in parts.items()},
            "project_id": "p",
            "user_id": "u",
            "consumer_generation": None,
            **more,
        }
        client = self.client("1.36")  # without types of consumers
        return int(client.put(f"/allocations/{consumer}", json=body).status_code)

    def requests(self) -> list[Request]:
        """Return the requests that were served since the first start, oldest first."""
        lines = self._access.read_text().splitlines()
        return [Request(*json.loads(line)) for line in lines]
