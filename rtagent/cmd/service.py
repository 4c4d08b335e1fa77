"""rtagent service: list the services, disable and enable this host for scheduling."""

import argparse
from datetime import datetime, timedelta

from rtagent.cmd.base import Action, List, Rows, columns, rows
from rtagent.cmd.output import OrEmpty, YesNo, timestamp
from rtagent.ports import Service

_COLUMNS = columns(
    *("host", "binary", "state", "last_seen_up", "disabled", "disabled_reason", "forced_down"),
    "version",
    last_seen_up=timestamp,
    disabled=YesNo,
    disabled_reason=OrEmpty,
    forced_down=YesNo,
)


class ServiceList(List):
    """List the services of the database.

    A service is up while its last heartbeat is more recent than service_down_time.
    """

    nouns = "services"

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        down_time = self.app.client.settings.default.service_down_time
        database = self.app.client.database
        services, now = database.services(), database.now()

        def state(service: Service) -> str:
            up = is_up(service.last_seen_up, now, down_time) and not service.forced_down
            return "up" if up else "down"

        return rows({**_COLUMNS, "state": state}, services)


class ServiceDisable(Action):
    """Disable this host for scheduling.

    Placement gets the trait COMPUTE_STATUS_DISABLED. Calls are served as before.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--reason", required=True, help="The reason, which `service list` shows."
        )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        service = self.app.client.call("set_service", True, parsed_args.reason)
        self.app.LOG.info("%s is disabled: %s", service["host"], parsed_args.reason)


class ServiceEnable(Action):
    """Enable this host for scheduling."""

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        service = self.app.client.call("set_service", False)
        self.app.LOG.info("%s is enabled", service["host"])


class ServiceForceDown(Action):
    """Record that a host is down, whatever its agent reports, or (--off) that it no longer is.

    No scheduler selects the host, and `server evacuate` starts its servers elsewhere. Do it only
    if the guests of the host do not run any more: the host is switched off, or fenced. Any
    scheduler makes the change; with --offline it is made in the database that all share. An agent
    that runs learns of it at its next heartbeat or report, and grants no claims until --off.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("host", help="The service host.")
        parser.add_argument("--off", action="store_true", help="The host is back.")

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        client, host, down = self.app.client, parsed_args.host, not parsed_args.off
        if self.app.options.offline:
            client.database.force_down(host, down)
        else:
            client.call_scheduler("force_down_service", host=host, forced_down=down)
        self.app.LOG.info("%s is %s", host, "forced down" if down else "no longer forced down")


def is_up(seen: datetime | None, now: datetime, down_time: float) -> bool:
    """Return whether a service is up.

    A time in the future is from before the clock was set back: a service that is up has sent a
    heartbeat since.

    :param seen: the last heartbeat. :param now: by the same clock.
    :param down_time: seconds without a heartbeat after which a service is down.
    """
    return seen is not None and abs(now - seen) < timedelta(seconds=down_time)
