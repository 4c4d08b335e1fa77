"""The systemd service: how it starts, reloads, hangs, fails, and what it may."""

import re

from rtagent.cmd.rtagentd import EX_CONFIG
from tests.builders import uid
from tests.lab.rack import CONTEXT, PATIENCE, Served, wait_until

#: What `systemd-analyze security` may come to.
MOST_EXPOSED = 4.0
SOCKETS = ("libvirtd.service", "libvirtd.socket", "libvirtd-ro.socket", "libvirtd-admin.socket")


def test_it_is_ready_after_the_first_audit_and_not_before(host: Served):
    host.tell("systemctl", "stop", *SOCKETS)
    try:
        host.tell("systemctl", "restart", "--no-block", "rtagent")
        wait_until(lambda: "waiting for the hypervisor" in host.unit("StatusText"))
        assert host.unit("ActiveState") == "activating"
    finally:
        host.tell("systemctl", "start", *SOCKETS)
    host.wait_served()

    assert host.unit("ActiveState") == "active"
    said = host.journal().splitlines()[::-1]
    started = next(n for n, line in enumerate(said) if line.startswith("Started rtagent"))
    audited = next(n for n, line in enumerate(said) if "audit (start)" in line)
    assert started < audited  # the latest comes first


def test_a_stuck_agent_is_killed_and_started_again(host: Served):
    claim = host.claim(uid())
    seconds = "[Service]\nWatchdogSec=20\nTimeoutAbortSec=5\n"
    with host.file("/run/systemd/system/rtagent.service.d/test.conf", seconds):
        host.tell("systemctl", "daemon-reload")
        host.tell("systemctl", "restart", "rtagent", timeout=PATIENCE)
        before = host.unit("MainPID")
        host.tell("kill", "-STOP", before)
        wait_until(lambda: host.unit("MainPID") not in (before, "0"))
    host.tell("systemctl", "daemon-reload")
    host.wait_served()

    assert host.unit("NRestarts") == "1"
    assert "Watchdog timeout" in host.journal()
    assert [held["uuid"] for held in host.claims()] == [claim["uuid"]]


def test_it_runs_as_its_own_user_with_no_more_than_it_needs(host: Served):
    pid = host.unit("MainPID")
    status = dict(
        line.split(":\t", 1)
        for line in host.tell("cat", f"/proc/{pid}/status").splitlines()
        if ":\t" in line
    )
    assert host.tell("stat", "-c", "%U %G", f"/proc/{pid}").split() == ["rtagent", "rtagent"]
    assert {status[name] for name in status if name.startswith("Cap")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    for path in ("/etc/file", "/usr/file", "/sys/devices/system/cpu/cpu1/online"):
        done = host.ask("nsenter", f"--target={pid}", "--mount", "tee", path, given="1")
        assert "Read-only file system" in done.stderr
    for path in ("/var/lib/rtagent/file", "/run/lock/file"):
        host.tell("nsenter", f"--target={pid}", "--mount", "tee", path)
        host.tell("rm", path)


def test_systemd_finds_it_hardened(host: Served):
    told = host.tell("systemd-analyze", "security", "--no-pager", "rtagent")
    line = told.splitlines()[-1]
    print(line)
    assert float(re.findall(r"[0-9]+\.[0-9]", line)[0]) <= MOST_EXPOSED


def test_a_reload_changes_what_is_reserved_and_nothing_else(host: Served):
    before, used = host.unit("MainPID"), host.node()["memory_mb_used"]
    with host.configured("DEFAULT", reserved_host_memory_mb=600):
        host.tell("systemctl", "reload", "rtagent")
        wait_until(lambda: host.node()["memory_mb_used"] == used + 600 - 512)
    with host.configured("DEFAULT", reserved_host_memory_mb="much"):
        host.tell("systemctl", "reload", "rtagent")
        wait_until(lambda: "the old configuration stays in force" in host.journal())
        assert host.node()["memory_mb_used"] == used + 600 - 512
    host.tell("systemctl", "reload", "rtagent")
    wait_until(lambda: host.node()["memory_mb_used"] == used)

    assert host.unit("MainPID") == before


def test_what_only_a_person_can_mend_is_not_tried_again(host: Served):
    with host.configured("DEFAULT", reserved_host_memory_mb="much"):
        assert host.ask("systemctl", "restart", "rtagent", timeout=PATIENCE).code != 0
        assert host.unit("ExecMainStatus") == str(EX_CONFIG)
        assert (host.unit("ActiveState"), host.unit("SubState")) == ("failed", "failed")
        assert host.unit("NRestarts") == "0"
    host.wait_served()


def test_the_journal_tells_a_claims_life(host: Served):
    claim = host.claim(uid())["uuid"]
    host.api.release_claim(CONTEXT, claim)
    said = host.tell("journalctl", "--no-pager", "--unit=rtagent", f"--grep=claim {claim}")
    assert "create claim" in said and "release claim" in said
    assert "rtagentd[" in said
