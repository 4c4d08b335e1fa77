"""Does what nova-api does: calls Nova's conductor and compute services, and reads Nova's cells.

A program of the virtual environment with Nova::

    python -m tests.nova.caller NOVA_CONF

Each line of its input is a JSON array, the name of a command and its arguments; it answers each
with a line of JSON, ``{"answer": ...}`` or ``{"error": ...}``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from nova import monkey_patch

# Before anything else of Nova's. Nova 31 has replaced threads by greenlets with the import.
if hasattr(monkey_patch, "patch"):
    monkey_patch.patch(backend="threading")

from nova import config, context, objects
from nova.compute import api as compute_api

from tests.nova import build, cell_rows, flavors

USER, PROJECT = "caller", "project"


def main() -> None:
    (file,) = sys.argv[1:]
    config.parse_args(["caller", "--config-file", file])
    objects.register_all()
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        print(json.dumps(_answer(name, arguments)), flush=True)


def _answer(name: str, arguments: list[Any]) -> dict[str, Any]:
    ctxt = context.RequestContext(USER, PROJECT, roles=["admin"], auth_token="admin")
    try:
        return {"answer": COMMANDS[name](ctxt, *arguments)}
    except Exception as error:  # the caller raises it
        return {"error": f"{type(error).__name__}: {error}"}


def delete(ctxt: Any, uuid: str) -> None:
    """Have a server deleted."""
    compute_api.API().delete(ctxt, _server(ctxt, uuid))


def resize(ctxt: Any, uuid: str, memory_mb: int, extra_specs: dict[str, str]) -> None:
    """Have a server resized, on any host."""
    flavor = flavors.flavor_with(ctxt, memory_mb, extra_specs)
    compute_api.API().resize(ctxt, _server(ctxt, uuid), flavor.flavorid, clean_shutdown=False)


def migrate(ctxt: Any, uuid: str, host: str) -> None:
    """Have a server moved to a host with its flavor, and started there."""
    compute_api.API().resize(ctxt, _server(ctxt, uuid), clean_shutdown=False, host_name=host)


def confirm(ctxt: Any, uuid: str) -> None:
    """Have a resize or a migration confirmed."""
    compute_api.API().confirm_resize(ctxt, _server(ctxt, uuid))


def revert(ctxt: Any, uuid: str) -> None:
    """Have a resize or a migration reverted."""
    compute_api.API().revert_resize(ctxt, _server(ctxt, uuid))


def live_migrate(ctxt: Any, uuid: str, host: str) -> None:
    """Have a server moved to a host while it runs."""
    compute_api.API().live_migrate(
        ctxt,
        _server(ctxt, uuid),
        block_migration=None,
        disk_over_commit=None,
        host_name=host,
        force=False,
        async_=True,
    )


def evacuate(ctxt: Any, uuid: str) -> None:
    """Have a server built again on another host, because its own is down."""
    compute_api.API().evacuate(ctxt, _server(ctxt, uuid), host=None, on_shared_storage=None)


def force_down(ctxt: Any, host: str, is_down: bool) -> None:
    """Declare a host to be down, or no longer."""
    compute_api.HostAPI().service_update_by_host_and_binary(
        ctxt, host, "nova-compute", {"forced_down": is_down}
    )


def _server(ctxt: Any, uuid: str) -> Any:
    return compute_api.API().get(ctxt, uuid, expected_attrs=["flavor", "services"])


COMMANDS: Mapping[str, Callable[..., Any]] = {
    "build": build.build,
    "delete": delete,
    "resize": resize,
    "migrate": migrate,
    "confirm": confirm,
    "revert": revert,
    "live_migrate": live_migrate,
    "evacuate": evacuate,
    "force_down": force_down,
    "create_cells": cell_rows.create,
    "discover_hosts": cell_rows.discover_hosts,
    "servers": cell_rows.servers,
    "nodes": cell_rows.nodes,
}


if __name__ == "__main__":
    main()
