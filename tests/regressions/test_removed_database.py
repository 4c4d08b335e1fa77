"""An agent whose SQLite files are removed acknowledges nothing.

The files were unlinked under a running agent. Three more claims were answered, and none of them was
there after the restart.
"""

from tests.servers.daemon import Daemon, wait_until

FILES = ("rtagent.sqlite", "rtagent.sqlite-wal", "rtagent.sqlite-shm")


def test_agent_refuses_changes_until_its_database_is_back(tmp_path):
    aside = tmp_path / "aside"
    aside.mkdir()
    with Daemon(tmp_path, "fake://", config={"DEFAULT": {"report_interval": 1}}) as daemon:
        daemon.wait_ready()
        for name in FILES:
            (tmp_path / name).rename(aside / name)
        wait_until(lambda: check(daemon, "durability")[0] == "fail")
        assert f"{tmp_path}/{FILES[0]} is removed: put back" in check(daemon, "durability")[1]

        daemon.configure({"DEFAULT": {"reserved_host_memory_mb": 1024}})
        daemon.reload()  # something to write
        wait_until(lambda: check(daemon, "store")[0] == "fail")
        daemon.wait_logged(f"{tmp_path}/{FILES[0]} is removed: put back")
        assert daemon.read("nodes")["stale"] is True
        assert not [name for name in FILES if (tmp_path / name).exists()]

        for name in FILES:
            (aside / name).rename(tmp_path / name)
        wait_until(lambda: daemon.read("nodes")["nodes"][0]["memory_mb_used"] == 1024)
        wait_until(lambda: {check(daemon, part)[0] for part in ("durability", "store")} == {"pass"})


def check(daemon: Daemon, part: str) -> tuple[str, str]:
    """The status of a part, and the reason."""
    (found,) = daemon.read("health")["checks"].get(part, [{"status": ""}])
    return found["status"], found.get("output", "")
