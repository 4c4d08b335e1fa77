"""The locks of the state directory and of the hypervisor."""

import fcntl
import os
import stat

import pytest

from rtagent.errors import IdentityError
from rtagent.identity.locks import HypervisorLock, state_directory_lock, without_agent
from rtagent.ports import HostIdentity, NullReporter
from tests.support.hosts import uid
from tests.support.trackers import Reports

#: A user who is neither root nor the one who runs the tests.
STRANGER = 12345
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")


@pytest.fixture
def lock(tmp_path):
    made = state_directory_lock(str(tmp_path))
    yield made
    made.drop()


def refusal(lock):
    """The message with which the lock is refused."""
    with pytest.raises(IdentityError) as caught:
        lock.take()
    assert not lock.held
    return caught.value.message


def test_new_uuid_of_the_same_host_is_locked_and_logged(tmp_path):
    reports = Reports()
    lock = HypervisorLock(str(tmp_path), reports)

    for number in (1, 1, 2):
        lock.take(HostIdentity(hostname="here", host_uuid=uid(number)))

    names = {file.name for file in tmp_path.iterdir()}
    assert names == {f"rtagent-{uid(1)}.lock", f"rtagent-{uid(2)}.lock"}
    ((level, line),) = reports.logged
    assert level == "warning"
    assert uid(2) in line and "set host_uuid in libvirtd.conf" in line
    lock.drop()


def test_hypervisor_without_a_uuid_is_not_locked(tmp_path):
    HypervisorLock(str(tmp_path), NullReporter()).take(HostIdentity(hostname="here", host_uuid=""))

    assert list(tmp_path.iterdir()) == []


def test_lock_contains_the_process_and_can_be_read_by_its_owner_only(lock):
    lock.path.write_text("99999999 and more\n")
    lock.path.chmod(0o644)  # any user could lock a file that every user can read

    lock.take()

    assert lock.path.read_text() == f"{os.getpid()}\n"
    assert stat.S_IMODE(lock.path.stat().st_mode) == 0o600


def test_second_lock_is_refused_until_the_first_is_dropped(lock, tmp_path):
    lock.take()
    second = state_directory_lock(str(tmp_path))

    assert f"is locked by process {os.getpid()}: another rtagentd runs" in refusal(second)

    lock.drop()
    second.take()
    second.drop()


def test_file_of_a_stranger_who_holds_the_lock_is_not_changed(lock):
    """The process that holds it may not be an agent, and its text may not be a process id."""
    lock.path.write_text("\x1b[31m not a number")
    with lock.path.open() as held:
        fcntl.flock(held, fcntl.LOCK_SH)

        assert "is locked by process (unknown)" in refusal(lock)

    assert lock.path.read_text() == "\x1b[31m not a number"


def test_symbolic_link_is_neither_followed_nor_truncated(lock, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("content")
    lock.path.symlink_to(precious)

    assert "cannot be locked: Too many levels of symbolic links" in refusal(lock)

    assert precious.read_text() == "content"


def test_pipe_is_refused(lock):
    os.mkfifo(lock.path)

    assert refusal(lock) == f"{lock.path} is not a regular file: remove it"


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o702])
def test_directory_that_every_user_can_write_to_is_refused(lock, tmp_path, mode):
    tmp_path.chmod(mode)

    remedy = "remove that permission (chmod o-w)"
    assert refusal(lock) == f"every user can write to {tmp_path}: {remedy}"
    assert list(tmp_path.iterdir()) == []
    tmp_path.chmod(0o2770)  # a group's write access is intended
    lock.take()


def test_command_excludes_the_agent_and_creates_no_file(lock, tmp_path):
    with without_agent(str(tmp_path)):
        assert not lock.path.exists()
    lock.take()
    with (
        pytest.raises(IdentityError, match="rtagentd runs: stop it first"),
        without_agent(str(tmp_path)),
    ):
        pytest.fail("the agent runs")
    lock.drop()
    with without_agent(str(tmp_path)):
        assert "another rtagentd runs" in refusal(lock)


@as_root
def test_directory_of_another_user_is_refused(lock, tmp_path):
    os.chown(tmp_path, STRANGER, -1)

    assert f"{tmp_path} belongs to user {STRANGER}" in refusal(lock)


@as_root
def test_file_of_another_user_is_refused(lock):
    lock.path.write_text("content")
    os.chown(lock.path, STRANGER, -1)

    assert f"{lock.path} belongs to user {STRANGER}: remove it" in refusal(lock)
    assert lock.path.read_text() == "content"


def test_missing_lock_directory_is_refused_with_the_remedy(tmp_path):
    lock = HypervisorLock(str(tmp_path / "missing"), NullReporter())

    with pytest.raises(IdentityError, match=r"missing does not exist: systemd-tmpfiles --create"):
        lock.take(HostIdentity(hostname="here", host_uuid=uid(1)))
