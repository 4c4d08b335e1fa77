"""The file system of the guests' disks."""

import threading

import pytest

from rtagent.virt.libvirt.storage import FileSystem, Storage, probe


def test_the_probe_uses_statvfs(tmp_path):
    size = probe(str(tmp_path))
    assert 0 < size.free <= size.total


def test_size_comes_from_the_probe():
    size = FileSystem(total=10, free=3)
    assert Storage("/i", 5, {"/i": size}.__getitem__).size() == size


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
