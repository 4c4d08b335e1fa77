"""Services of a lab host: what is asked of systemd, which starts by itself what was killed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chaos.world.lab_parts import LIBVIRTD_SOCKETS, ServiceProcess

SERVICE = "libvirtd.service"
KILL, STOP, CONT = (
    f"systemctl kill --kill-whom=main --signal={name} {SERVICE}"
    for name in ("KILL", "STOP", "CONT")
)
UNITS = f"{' '.join(LIBVIRTD_SOCKETS)} {SERVICE}"
END, BEGIN = f"systemctl stop {UNITS}", f"systemctl start --no-block {UNITS}"


class CommandedHost:
    """A host that notes the commands that it gets."""

    def __init__(self) -> None:
        self.commands: list[str] = []

    def output(self, *command: str) -> str:
        self.commands.append(" ".join(command))
        return ""


@pytest.mark.parametrize(
    ("actions", "commands"),
    [
        (["start"], []),
        (["kill", "start"], [KILL]),
        (["pause", "resume", "resume"], [STOP, CONT]),
        (["pause", "kill", "resume"], [STOP, KILL]),
        (["stop", "start", "start"], [END, BEGIN]),
        (["pause", "stop"], [STOP, CONT, END]),
    ],
    ids=" ".join,
)
def test_only_what_was_stopped_is_started(actions: list[str], commands: list[str]):
    host: Any = CommandedHost()
    process = ServiceProcess(host, SERVICE, LIBVIRTD_SOCKETS)
    for action in actions:
        getattr(process, action)()
    assert host.commands == commands
    assert not process.ensure_running()
