"""The checks of ``rtagent doctor``. Each one reads only."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import rtagent.rpc  # noqa: F401  before oslo.messaging, for which it chooses threads

# isort: split
import oslo_messaging
from oslo_context.context import RequestContext
from oslo_upgradecheck.upgradecheck import Code, Result

from rtagent.api.address import parse
from rtagent.api.client import ReadClient
from rtagent.cmd.broker import broker_names
from rtagent.cmd.client import Client
from rtagent.cmd.upgrade import UpgradeChecks
from rtagent.db.engine import open_engine
from rtagent.db.registry import SqlServiceRegistry
from rtagent.errors import AgentUnreachable, ConfigError
from rtagent.rpc.broker.connection import BROKEN, broker_of
from rtagent.rpc.broker.permissions import access_of
from rtagent.rpc.broker.refusals import remedy
from rtagent.rpc.broker.rights import rights_of
from rtagent.rpc.client import AgentAPI
from rtagent.rpc.clock_skew import clock_skew
from rtagent.rpc.errors import ReplyNotVerified, SignatureInvalid
from rtagent.rpc.roles import OPERATOR
from rtagent.rpc.transport import get_transport
from rtagent.rpc.trust.keys import format_time, read_ring
from rtagent.rpc.trust.private_key import read_private_key
from rtagent.service.trust import check_keys

PASS, WARN, FAIL = "pass", "warn", "fail"
_RESULTS = {Code.SUCCESS: PASS, Code.WARNING: WARN, Code.FAILURE: FAIL}
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


class Finding(NamedTuple):
    """What a check found. :ivar remedy: what to do; "": nothing."""

    result: str
    details: str = ""
    remedy: str = ""


class Doctor:
    """What the checks share. :ivar upgrade: the checks that `upgrade check` makes, too."""

    def __init__(self, client: Client) -> None:
        self.client, self.upgrade = client, UpgradeChecks(client)


Check = Callable[[Doctor], Finding]


def _upgrade(check: Callable[[UpgradeChecks], Result], remedy: str) -> Check:
    """Return a check of `upgrade check`, with a remedy."""

    def run(doctor: Doctor) -> Finding:
        result = doctor.upgrade.recorded("", check)
        found = _RESULTS[result.code]
        details = " ".join((result.details or "").split())
        return Finding(found, details, "" if found == PASS else remedy)

    return run


def agent(doctor: Doctor) -> Finding:
    """Whether the daemon runs, and is healthy."""
    address = doctor.client.options.socket or doctor.client.settings.api.address
    try:
        health = ReadClient(parse(address)).get("health")
    except AgentUnreachable as error:
        return Finding(WARN, error.message, "systemctl start rtagent, and journalctl -u rtagent")
    bad = [
        f"{part}: {each.get('output') or each['status']}"
        for part, checks in health["checks"].items()
        for each in checks
        if each["status"] != "pass"
    ]
    result = {"pass": PASS, "warn": WARN}.get(health["status"], FAIL)
    return Finding(result, "; ".join(bad), "see the runbook" if bad else "")


def broker(doctor: Doctor) -> Finding:
    """Whether a call reaches the agent through the message broker, and its reply comes back."""
    host = doctor.client.settings.default.host
    api = AgentAPI(get_transport(doctor.client.conf), host, timeout=BROKER_PATIENCE, attempts=1)
    context = RequestContext(roles=[OPERATOR], overwrite=False)
    try:
        skew = clock_skew(lambda: api.ping(context))
    except SignatureInvalid as error:
        return Finding(FAIL, error.message, SYNCHRONISE if error.kwargs["skew"] else NEW_KEY)
    except ReplyNotVerified as error:
        return Finding(FAIL, error.message, "set [rpc] signing_key of the agent, and reload it")
    except oslo_messaging.MessagingTimeout:
        remedy = "if rtagentd runs, compare its transport_url, control_exchange and host"
        return Finding(WARN, f"the broker was reached, and no agent of {host} answers", remedy)
    except oslo_messaging.MessagingException as error:
        remedy = "check [DEFAULT] transport_url, the user's rights, and that the broker runs"
        return Finding(FAIL, str(error).partition("\n")[0], remedy)
    answers = f"the agent of {host} answers"
    if skew is None:  # an earlier release
        return Finding(PASS, answers)
    if abs(skew) <= min(CLOCK_TOLERANCE, doctor.client.settings.rpc.signature_window):
        return Finding(PASS, answers)
    side = "ahead of" if skew > 0 else "behind"
    return Finding(WARN, f"{answers}; this clock is {abs(skew):.1f} s {side} its", SYNCHRONISE)


def keys(doctor: Doctor) -> Finding:
    """Whether the files of keys are good, and the own key is valid for some time."""
    settings = doctor.client.settings
    options, now = settings.rpc, datetime.now(UTC)
    try:
        check_keys(settings)
    except ConfigError as error:
        return Finding(FAIL, error.message, NEW_KEY)
    if options.signing_key is None:
        return Finding(PASS, "calls are not signed")
    name = read_private_key(options.signing_key).name
    found = read_ring(options.keys_file).get(name)
    if found is None:
        details = f"[rpc] keys_file of this machine does not have the key {name}"
        return Finding(WARN, details, "copy the file from where keys are generated")
    if why := found[0].why_unusable(now):
        return Finding(FAIL, why, NEW_KEY)
    details = f"the key {name} is valid until {format_time(found[0].not_after)}"
    soon = found[0].not_after - now < KEY_WARNING
    return Finding(WARN, details, NEW_KEY) if soon else Finding(PASS, details)


def broker_rights(doctor: Doctor) -> Finding:
    """What the user may do at RabbitMQ and need not, and what it lacks. Nothing is changed."""
    conf = doctor.client.conf
    found = broker_of(get_transport(conf))
    if found is None:
        return Finding(PASS, "the broker is not RabbitMQ")
    names, user = broker_names(conf), found.user
    try:
        rights = rights_of(
            found, access_of(user, doctor.client.settings.default.host, names), names
        )
    except BROKEN as error:
        what = remedy(error) or "check [DEFAULT] transport_url, and that the broker runs"
        return Finding(FAIL, str(error).partition("\n")[0] or type(error).__name__, what)
    if rights.lacking:
        details = f"the user {user} may not {'; nor '.join(rights.lacking)}"
        return Finding(FAIL, details, GRANT)
    if rights.needless:
        details = f"the user {user} may, and need not: {'; '.join(rights.needless)}"
        return Finding(WARN, details, GRANT)
    return Finding(PASS, f"the user {user} may do what it needs")


def iommu(doctor: Doctor) -> Finding:
    """Whether Linux can assign devices, if any are configured."""
    settings = doctor.client.settings
    if settings.libvirt.uri.startswith("test:"):
        return Finding(PASS, "the host is simulated")
    groups = len(list(_IOMMU.iterdir())) if _IOMMU.is_dir() else 0
    if groups or not doctor.client.conf.pci.device_spec:
        return Finding(PASS, f"{groups} groups")
    remedy = "enable it in the firmware, and boot with intel_iommu=on or amd_iommu=on"
    return Finding(FAIL, "[pci] device_spec is set, and the host has no IOMMU groups", remedy)


def huge_pages(doctor: Doctor) -> Finding:
    """Whether the host has the huge pages that the configuration reserves."""
    settings = doctor.client.settings
    if settings.libvirt.uri.startswith("test:"):
        return Finding(PASS, "the host is simulated")
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
        return Finding(FAIL, f"fewer pages of {sizes} KiB than reserved_huge_pages", remedy)
    return Finding(PASS, shown)


def clock(doctor: Doctor) -> Finding:
    """Whether the clocks of this host and of the database agree."""
    options = doctor.client.settings.database
    engine = open_engine(options.connection, options.operation_timeout, require_durability=False)
    if engine.dialect.name == "sqlite":
        return Finding(PASS, "an SQLite database has the clock of this host")
    try:
        ours = datetime.now(UTC)
        difference = abs((SqlServiceRegistry(engine).now(ours) - ours).total_seconds())
    finally:
        engine.dispose()
    if difference > CLOCK_TOLERANCE:
        details = f"this host and the database differ by {difference:.0f} s"
        return Finding(WARN, details, "synchronise both with NTP")
    return Finding(PASS)


def lock(doctor: Doctor) -> Finding:
    """Which process has the lock of the state directory."""
    path = Path(doctor.client.settings.default.state_path, "lock")
    process = _holder(path)
    return Finding(PASS, "no process" if process is None else f"process {process} has {path}")


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


def disk(doctor: Doctor) -> Finding:
    """Whether the file system of the state directory has space left."""
    directory = Path(doctor.client.settings.default.state_path)
    if not directory.is_dir():
        return Finding(WARN, f"{directory} does not exist", "rtagentd creates it at its start")
    status = os.statvfs(directory)
    free = status.f_bavail * status.f_frsize // 2**20
    details = f"{directory} has {free} MB left"
    if free >= FEW_MB:
        return Finding(PASS, details)
    remedy = "free space: without it, claims are refused"
    return Finding(FAIL if free < LEAST_MB else WARN, details, remedy)


#: In the order in which they are made: some need the results of those before them.
CHECKS: Sequence[tuple[str, Check]] = (
    ("configuration", _upgrade(UpgradeChecks.configuration, "correct the options that are named")),
    ("options", _upgrade(UpgradeChecks.options, "correct or remove the options that are named")),
    ("database", _upgrade(UpgradeChecks.database, "rtagent db sync, or see the runbook")),
    ("clock", clock),
    (
        "libvirt",
        _upgrade(UpgradeChecks.hypervisor, "start libvirt; add the user to the group libvirt"),
    ),
    ("IOMMU", iommu),
    ("huge pages", huge_pages),
    ("identity", _upgrade(UpgradeChecks.identity, "see the runbook: the agent exits with 78")),
    ("state directory", disk),
    ("lock", lock),
    ("keys", keys),
    ("message broker", broker),
    ("broker permissions", broker_rights),
    ("Placement", _upgrade(UpgradeChecks.placement, "correct [placement], or its user's roles")),
    ("agent", agent),
)
