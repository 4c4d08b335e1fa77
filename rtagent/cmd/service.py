"""rtagent service: the agents and their part in scheduling."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from rtagent.cmd.columns import Nothing, Yes, when
from rtagent.cmd.listing import Act, List
from rtagent.ports import Service

COLUMNS = (
    "host",
    "binary",
    "state",
    "last_seen_up",
    "disabled",
    "disabled_reason",
    "forced_down",
    "version",
)


class ServiceList(List):
    """List the services of the database

    A service is up while its last heartbeat is younger than service_down_time.
    """

    nouns = "services"

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        down_time = self.world.settings.default.service_down_time
        oldest = datetime.now(UTC) - timedelta(seconds=down_time)
        return COLUMNS, [_row(service, oldest) for service in self.world.database.services()]


def _row(service: Service, oldest: datetime) -> Sequence[Any]:
    seen = service.last_seen_up
    up = seen is not None and seen > oldest and not service.forced_down
    return (
        service.host,
        service.binary,
        "up" if up else "down",
        when(seen.isoformat() if seen else None),
        Yes(service.disabled),
        Nothing(service.disabled_reason),
        Yes(service.forced_down),
        service.version,
    )


class ServiceDisable(Act):
    """Take this host out of scheduling

    Claims are granted as before to whoever asks; Placement shows COMPUTE_STATUS_DISABLED.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--reason", required=True, help="Why, for those who wonder.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        service = self.world.call("set_service", True, parsed_args.reason)
        self.app.LOG.info("%s is disabled: %s", service["host"], parsed_args.reason)


class ServiceEnable(Act):
    """Take this host back into scheduling"""

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        service = self.world.call("set_service", False)
        self.app.LOG.info("%s is enabled", service["host"])
