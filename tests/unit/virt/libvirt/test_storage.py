"""The file system of the guests' disks, and the list of the host's persistent memory."""

import threading

import pytest

from rtagent.model.assignment import PmemNamespace
from rtagent.ports import PmemUnavailable
from rtagent.virt.libvirt.connection import Session
from rtagent.virt.libvirt.storage import FileSystem, Namespaces, Storage, probe


def test_the_probe_uses_statvfs(tmp_path):
    size = probe(str(tmp_path))
    assert 0 < size.free <= size.total


def test_a_missing_directory_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        Storage(str(tmp_path / "none"), 5).size()


def test_a_hanging_probe_is_not_repeated_until_it_returns():
    release, asked = threading.Event(), []

    def hang(path):
        asked.append(path)
        release.wait()
        return FileSystem(total=1, free=1)

    storage = Storage("/i", 0.2, hang)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            storage.size()
    assert asked == ["/i"]

    release.set()
    while True:  # the left thread has only to end
        try:
            assert storage.size() == FileSystem(total=1, free=1)
        except TimeoutError:
            continue
        break
    assert asked == ["/i"]  # the late result was used


@pytest.mark.parametrize(
    ("path", "file", "expected"),
    [
        ("/i", "/i/u/disk", True),
        ("/i/", "/i/u/disk", True),
        ("/i", "/images/disk", False),
        ("/i", "i/disk", False),
        ("/", "/disk", True),
    ],
)
def test_holds_files_below_the_directory(path, file, expected):
    assert Storage(path, 5).contains(file) is expected


NS0 = PmemNamespace(name="ns0", path="/dev/dax0.0", size_kb=4096, align_kb=2048)


class Source:
    """Persistent memory that counts how often it is listed."""

    def __init__(self):
        self.calls, self.error = 0, None

    def namespaces(self):
        self.calls += 1
        if self.error is not None:
            raise self.error
        return [NS0]


@pytest.fixture
def source():
    return Source()


def session():
    return Session(object(), ())


def test_a_failure_is_reported_and_keeps_the_last_list(source):
    namespaces = Namespaces(source)
    namespaces.look(session(), None)
    source.error, second = PmemUnavailable("it hangs"), session()
    for _ in range(3):
        (problem,) = namespaces.look(second, None)
        assert (problem.item, problem.message) == ("persistent memory", "it hangs")
    assert (namespaces.listed, namespaces.names) == ((NS0,), {"/dev/dax0.0": "ns0"})
    assert source.calls == 2


def test_namespaces_that_were_never_listed_are_unknown(source):
    source.error = PmemUnavailable("it hangs")
    namespaces = Namespaces(source)
    namespaces.look(session(), None)
    assert (namespaces.listed, namespaces.names) == (None, None)
    namespaces = Namespaces(None)
    namespaces.look(session(), None)
    assert namespaces.listed == ()
