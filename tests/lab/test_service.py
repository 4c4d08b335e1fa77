"""The systemd service: start, reload, hang, failure and permissions."""

import re

from rtagent.cmd.daemon import EX_CONFIG
from tests.lab.rack import CONTEXT, PATIENCE, Served, wait_until
from tests.support.hosts import uid

#: The highest acceptable score of `systemd-analyze security`.
MOST_EXPOSED = 4.0
SOCKETS = ("libvirtd.service", "libvirtd.socket", "libvirtd-ro.socket", "libvirtd-admin.socket")


def test_service_is_ready_after_its_first_audit(host: Served):
    host.output("systemctl", "stop", *SOCKETS)
    try:
        host.output("systemctl", "restart", "--no-block", "rtagent")
        wait_until(lambda: "waiting for the hypervisor" in host.unit("StatusText"))
        assert host.unit("ActiveState") == "activating"
    finally:
        host.output("systemctl", "start", *SOCKETS)
    host.wait_served()

    assert host.unit("ActiveState") == "active"
    said = host.journal().splitlines()[::-1]
    started = next(n for n, line in enumerate(said) if line.startswith("Started rtagent"))
    audited = next(n for n, line in enumerate(said) if "audit (start)" in line)
    assert started < audited  # the newest is first


def test_hanging_agent_is_restarted(host: Served):
    claim = host.claim(uid())
    seconds = "[Service]\nWatchdogSec=20\nTimeoutAbortSec=5\n"
    with host.file("/run/systemd/system/rtagent.service.d/test.conf", seconds):
        host.output("systemctl", "daemon-reload")
        host.output("systemctl", "restart", "rtagent", timeout=PATIENCE)
        before = host.unit("MainPID")
        host.output("kill", "-STOP", before)
        wait_until(lambda: host.unit("MainPID") not in (before, "0"))
    host.output("systemctl", "daemon-reload")
    host.wait_served()

    assert host.unit("NRestarts") == "1"
    assert "Watchdog timeout" in host.journal()
    assert [held["uuid"] for held in host.claims()] == [claim["uuid"]]


def test_service_runs_as_its_own_user_with_few_capabilities(host: Served):
    pid = host.unit("MainPID")
    status = dict(
        line.split(":\t", 1)
        for line in host.output("cat", f"/proc/{pid}/status").splitlines()
        if ":\t" in line
    )
    assert host.output("stat", "-c", "%U %G", f"/proc/{pid}").split() == ["rtagent", "rtagent"]
    assert {status[name] for name in status if name.startswith("Cap")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    for path in ("/etc/file", "/usr/file", "/sys/devices/system/cpu/cpu1/online"):
        done = host.execute("nsenter", f"--target={pid}", "--mount", "tee", path, given="1")
        assert "Read-only file system" in done.stderr
    for path in ("/var/lib/rtagent/file", "/run/rtagent/file"):
        host.output("nsenter", f"--target={pid}", "--mount", "tee", path)
        host.output("rm", path)


def test_security_score_is_low(host: Served):
    report = host.output("systemd-analyze", "security", "--no-pager", "rtagent")
    line = report.splitlines()[-1]
    print(line)
    assert float(re.findall(r"[0-9]+\.[0-9]", line)[0]) <= MOST_EXPOSED


def test_reload_changes_reserved_memory_only(host: Served):
    before, used = host.unit("MainPID"), host.node()["memory_mb_used"]
    with host.configured("DEFAULT", reserved_host_memory_mb=600):
        host.output("systemctl", "reload", "rtagent")
        wait_until(lambda: host.node()["memory_mb_used"] == used + 600 - 512)
    with host.configured("DEFAULT", reserved_host_memory_mb="much"):
        host.output("systemctl", "reload", "rtagent")
        wait_until(lambda: "the old configuration stays in force" in host.journal())
        assert host.node()["memory_mb_used"] == used + 600 - 512
    host.output("systemctl", "reload", "rtagent")
    wait_until(lambda: host.node()["memory_mb_used"] == used)

    assert host.unit("MainPID") == before


def test_configuration_error_is_not_retried(host: Served):
    with host.configured("DEFAULT", reserved_host_memory_mb="much"):
        assert host.execute("systemctl", "restart", "rtagent", timeout=PATIENCE).code != 0
        assert host.unit("ExecMainStatus") == str(EX_CONFIG)
        assert (host.unit("ActiveState"), host.unit("SubState")) == ("failed", "failed")
        assert host.unit("NRestarts") == "0"
    host.wait_served()


def test_journal_has_the_events_of_a_claim(host: Served):
    claim = host.claim(uid())["uuid"]
    host.api.release_claim(CONTEXT, claim)
    said = host.output("journalctl", "--no-pager", "--unit=rtagent", f"--grep=claim {claim}")
    assert "create claim" in said and "release claim" in said
    assert "rtagentd[" in said
