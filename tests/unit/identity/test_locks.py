"""The locks of the hypervisor."""

from rtagent.identity.locks import HypervisorLock
from rtagent.ports import HostIdentity, NullReporter
from tests.support.hosts import uid


class Lines(NullReporter):
    """A reporter that keeps its log lines."""

    def __init__(self):
        self.lines = []

    def log(self, level, sentence):
        self.lines.append((level, sentence))


def test_new_uuid_of_the_same_host_is_locked_and_logged(tmp_path):
    lines = Lines()
    lock = HypervisorLock(str(tmp_path), lines)

    for number in (1, 1, 2):
        lock.take(HostIdentity(hostname="here", host_uuid=uid(number)))

    assert {file.name for file in tmp_path.iterdir()} == {
        f"rtagent-{uid(1)}.lock",
        f"rtagent-{uid(2)}.lock",
    }
    ((level, line),) = lines.lines
    assert level == "warning"
    assert uid(2) in line and "set host_uuid in libvirtd.conf" in line
    lock.drop()


def test_hypervisor_without_a_uuid_is_not_locked(tmp_path):
    HypervisorLock(str(tmp_path), NullReporter()).take(HostIdentity(hostname="here", host_uuid=""))

    assert list(tmp_path.iterdir()) == []
