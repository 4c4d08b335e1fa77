"""rtagent doctor: run every check of this host, and say what to do. Each check reads only."""

import argparse
import os
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import rtagent.rpc  # noqa: F401  before oslo.messaging, for which it chooses threads

# isort: split
import oslo_messaging
from oslo_context.context import RequestContext

from rtagent.api.address import parse
from rtagent.api.client import ReadClient
from rtagent.cmd.access import broker_names
from rtagent.cmd.base import List, Rows
from rtagent.cmd.exit_codes import Exit
from rtagent.cmd.upgrade import FAIL, PASS, WARN, Check, CheckFinding, Checks, made
from rtagent.db.engine import disposed, open_engine
from rtagent.db.registry import SqlServiceRegistry
from rtagent.errors import AgentUnreachable, ConfigError, RtAgentError
from rtagent.rpc.broker.connection import BROKEN, broker_of
from rtagent.rpc.broker.refusals import remedy
from rtagent.rpc.broker.rights import access_of, rights_of
from rtagent.rpc.client import AgentAPI
from rtagent.rpc.errors import ReplyNotVerified, SignatureInvalid
from rtagent.rpc.replies import clock_skew
from rtagent.rpc.roles import OPERATOR
from rtagent.rpc.transport import get_transport
from rtagent.rpc.trust.credentials import read_private_key
from rtagent.rpc.trust.keys import format_time, read_ring
from rtagent.service.trust import check_keys

#: Seconds that one check may take.
PATIENCE = 15.0
COLUMNS = ("check", "result", "details", "remedy")
#: Seconds by which the clocks of this host and of the database may differ.
CLOCK_TOLERANCE = 5.0
#: MB below which a file system is too full for the database.
LEAST_MB, FEW_MB = 64, 1024
#: Seconds for the broker to answer.
BROKER_PATIENCE = 3.0
#: The remedy for other permissions than those of the recipe.
GRANT = "give it the permissions that rtagent broker definitions prints"

#: The time before the end of a key at which a new one should be made.
KEY_WARNING = timedelta(days=30)
SYNCHRONISE = "synchronise both clocks with NTP: signatures are refused outside signature_window"
NEW_KEY = "make a key with rtagent key generate, copy keys_file to all servers, and reload them"

_IOMMU = Path("/sys/kernel/iommu_groups")
_PAGES = Path("/sys/kernel/mm/hugepages")


def agent(checks: Checks) -> CheckFinding:
    """Whether the daemon runs, and is healthy."""
    address = checks.client.options.socket or checks.client.settings.api.address
    try:
        health = ReadClient(parse(address)).get("health")
    except AgentUnreachable as error:
        return CheckFinding(
            WARN, error.message, "systemctl start rtagent, and journalctl -u rtagent"
        )
    bad = [
        f"{part}: {each.get('output') or each['status']}"
        for part, checks in health["checks"].items()
        for each in checks
        if each["status"] != "pass"
    ]
    result = {"pass": PASS, "warn": WARN}.get(health["status"], FAIL)
    return CheckFinding(result, "; ".join(bad), "see the runbook" if bad else "")


def broker(checks: Checks) -> CheckFinding:
    """Whether a call reaches the agent through the message broker, and its reply comes back."""
    host = checks.client.settings.default.host
    api = AgentAPI(get_transport(checks.client.conf), host, timeout=BROKER_PATIENCE, attempts=1)
    context = RequestContext(roles=[OPERATOR], overwrite=False)
    try:
        skew = clock_skew(lambda: api.ping(context))
    except SignatureInvalid as error:
        return CheckFinding(FAIL, error.message, SYNCHRONISE if error.kwargs["skew"] else NEW_KEY)
    except ReplyNotVerified as error:
        return CheckFinding(
            FAIL, error.message, "set [rpc] signing_key of the agent, and reload it"
        )
    except oslo_messaging.MessagingTimeout:
        remedy = "if rtagentd runs, compare its transport_url, control_exchange and host"
        return CheckFinding(WARN, f"the broker was reached, and no agent of {host} answers", remedy)
    except oslo_messaging.MessagingException as error:
        remedy = "check [DEFAULT] transport_url, the user's rights, and that the broker runs"
        return CheckFinding(FAIL, str(error).partition("\n")[0], remedy)
    answers = f"the agent of {host} answers"
    if abs(skew) <= min(CLOCK_TOLERANCE, checks.client.settings.rpc.signature_window):
        return CheckFinding(PASS, answers)
    side = "ahead of" if skew > 0 else "behind"
    return CheckFinding(WARN, f"{answers}; this clock is {abs(skew):.1f} s {side} its", SYNCHRONISE)


def keys(checks: Checks) -> CheckFinding:
    """Whether the files of keys are good, and the own key is valid for some time."""
    settings = checks.client.settings
    options, now = settings.rpc, datetime.now(UTC)
    try:
        check_keys(settings)
    except ConfigError as error:
        return CheckFinding(FAIL, error.message, NEW_KEY)
    if options.signing_key is None:
        return CheckFinding(PASS, "calls are not signed")
    name = read_private_key(options.signing_key).name
    found = read_ring(options.keys_file).get(name)
    if found is None:
        details = f"[rpc] keys_file of this machine does not have the key {name}"
        return CheckFinding(WARN, details, "copy the file from where keys are generated")
    if why := found[0].why_unusable(now):
        return CheckFinding(FAIL, why, NEW_KEY)
    details = f"the key {name} is valid until {format_time(found[0].not_after)}"
    soon = found[0].not_after - now < KEY_WARNING
    return CheckFinding(WARN, details, NEW_KEY) if soon else CheckFinding(PASS, details)


def broker_rights(checks: Checks) -> CheckFinding:
    """What the user may do at RabbitMQ and need not, and what it lacks. Nothing is changed."""
    conf = checks.client.conf
    found = broker_of(get_transport(conf))
    if found is None:
        return CheckFinding(PASS, "the broker is not RabbitMQ")
    names, user = broker_names(conf), found.user
    try:
        rights = rights_of(
            found, access_of(user, checks.client.settings.default.host, names), names
        )
    except BROKEN as error:
        what = remedy(error) or "check [DEFAULT] transport_url, and that the broker runs"
        return CheckFinding(FAIL, str(error).partition("\n")[0] or type(error).__name__, what)
    if rights.lacking:
        details = f"the user {user} may not {'; nor '.join(rights.lacking)}"
        return CheckFinding(FAIL, details, GRANT)
    if rights.needless:
        details = f"the user {user} may, and need not: {'; '.join(rights.needless)}"
        return CheckFinding(WARN, details, GRANT)
    return CheckFinding(PASS, f"the user {user} may do what it needs")


def iommu(checks: Checks) -> CheckFinding:
    """Whether Linux can assign devices, if any are configured."""
    settings = checks.client.settings
    if settings.libvirt.uri.startswith("test:"):
        return CheckFinding(PASS, "the host is simulated")
    groups = len(list(_IOMMU.iterdir())) if _IOMMU.is_dir() else 0
    if groups or not checks.client.conf.pci.device_spec:
        return CheckFinding(PASS, f"{groups} groups")
    remedy = "enable it in the firmware, and boot with intel_iommu=on or amd_iommu=on"
    return CheckFinding(FAIL, "[pci] device_spec is set, and the host has no IOMMU groups", remedy)


def huge_pages(checks: Checks) -> CheckFinding:
    """Whether the host has the huge pages that the configuration reserves."""
    settings = checks.client.settings
    if settings.libvirt.uri.startswith("test:"):
        return CheckFinding(PASS, "the host is simulated")
    found = {}
    for directory in sorted(_PAGES.glob("hugepages-*kB")) if _PAGES.is_dir() else ():
        size = int(directory.name.removeprefix("hugepages-").removesuffix("kB"))
        found[size] = int((directory / "nr_hugepages").read_text())
    shown = ", ".join(f"{number} of {size} KiB" for size, number in found.items())
    wanted: dict[int, int] = {}
    for pages in settings.default.reserved_huge_pages or ():
        wanted[pages.size] = wanted.get(pages.size, 0) + pages.count
    short = [size for size, number in wanted.items() if size in found and found[size] < number]
    if short:
        remedy = "reserve fewer, or add hugepages= to the command line of Linux"
        sizes = ", ".join(map(str, short))
        return CheckFinding(FAIL, f"fewer pages of {sizes} KiB than reserved_huge_pages", remedy)
    return CheckFinding(PASS, shown)


def clock(checks: Checks) -> CheckFinding:
    """Whether the clocks of this host and of the database agree."""
    options = checks.client.settings.database
    engine = open_engine(options.connection, options.operation_timeout, require_durability=False)
    if engine.dialect.name == "sqlite":
        return CheckFinding(PASS, "an SQLite database has the clock of this host")
    with disposed(engine):
        ours = datetime.now(UTC)
        difference = abs((SqlServiceRegistry(engine).now(ours) - ours).total_seconds())
    if difference > CLOCK_TOLERANCE:
        details = f"this host and the database differ by {difference:.0f} s"
        return CheckFinding(WARN, details, "synchronise both with NTP")
    return CheckFinding(PASS)


def lock(checks: Checks) -> CheckFinding:
    """Which process has the lock of the state directory."""
    path = Path(checks.client.settings.default.state_path, "lock")
    process = _holder(path)
    return CheckFinding(PASS, "no process" if process is None else f"process {process} has {path}")


def _holder(path: Path) -> str | None:
    """Return the id of the process that has locked a file; None: no process."""
    if not path.exists():
        return None
    status = path.stat()
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    for line in Path("/proc/locks").read_text().splitlines():
        fields = line.split()
        if "FLOCK" in fields and device in fields:
            return fields[fields.index(device) - 1]
    return None


def disk(checks: Checks) -> CheckFinding:
    """Whether the file system of the state directory has space left."""
    directory = Path(checks.client.settings.default.state_path)
    if not directory.is_dir():
        return CheckFinding(WARN, f"{directory} does not exist", "rtagentd creates it at its start")
    status = os.statvfs(directory)
    free = status.f_bavail * status.f_frsize // 2**20
    details = f"{directory} has {free} MB left"
    if free >= FEW_MB:
        return CheckFinding(PASS, details)
    remedy = "free space: without it, claims are refused"
    return CheckFinding(FAIL if free < LEAST_MB else WARN, details, remedy)


def _wanting(check: Check, remedy: str) -> Check:
    """Return a check of `upgrade check`, in one line and with a remedy: its own, or this one."""

    def run(checks: Checks) -> CheckFinding:
        result, details, own = made(check, checks)
        what = "" if result == PASS else own or remedy
        return CheckFinding(result, " ".join(details.split()), what)

    return run


#: In the order in which they are made: some need the results of those before them.
CHECKS: Sequence[tuple[str, Check]] = (
    ("configuration", _wanting(Checks.configuration, "correct the options that are named")),
    ("options", _wanting(Checks.options, "correct or remove the options that are named")),
    ("database", _wanting(Checks.database, "rtagent db sync, or see the runbook")),
    ("clock", clock),
    ("libvirt", _wanting(Checks.hypervisor, "start libvirt; add the user to the group libvirt")),
    ("IOMMU", iommu),
    ("huge pages", huge_pages),
    ("identity", _wanting(Checks.identity, "see the runbook: the agent exits with 78")),
    ("state directory", disk),
    ("lock", lock),
    ("keys", keys),
    ("message broker", broker),
    ("broker permissions", broker_rights),
    ("Placement", _wanting(Checks.placement, "correct [placement], or its user's roles")),
    ("agent", agent),
)


class DoctorRun(List):
    """Check this host, and say what to do: one row for each check.

    The checks read only. Each one ends in bounded time, and they work while the daemon is down. The
    exit code is 0 if all pass or only warn, and 1 if one fails.
    """

    nouns = "checks"

    def run(self, parsed_args: argparse.Namespace) -> int:
        self._code = Exit.OK
        return super().run(parsed_args) or self._code

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        checks = Checks(self.app.client)
        rows = []
        for title, check in CHECKS:
            found = _bounded(check, checks)
            if found.result == FAIL:
                self._code = Exit.ERROR
            rows.append((title, found.result, found.details, found.remedy))
        return COLUMNS, rows


def _bounded(check: Check, checks: Checks) -> CheckFinding:
    """Return what a check finds. One that hangs is given up, and its thread is left behind."""
    found: list[CheckFinding] = []

    def make() -> None:
        try:
            found.append(check(checks))
        except ExceptionGroup as group:
            message = "; ".join(map(str, group.exceptions))
            found.append(CheckFinding(FAIL, message, "rtagent config check"))
        except (RtAgentError, OSError) as error:
            found.append(CheckFinding(FAIL, str(error), "remove the cause, or see the runbook"))

    thread = threading.Thread(target=make, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    if found:
        return found[0]
    if thread.is_alive():
        return CheckFinding(FAIL, f"no answer within {PATIENCE:g} s", "find out what hangs")
    return CheckFinding(FAIL, "the check itself failed", "report this as a defect")
