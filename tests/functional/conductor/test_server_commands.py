"""rtagent server, over RabbitMQ, with agents on simulated hosts, a scheduler, and libvirt."""

import contextlib
import os
import signal

import psutil
import pytest
from msgspec.structs import replace

from rtagent.cmd.exit_codes import Exit
from rtagent.conductor.operations import TABLES
from rtagent.virt.simulate import Machine, host_uri, simulate
from tests.functional.cli.shell import run
from tests.servers.daemon import Daemon, SchedulerServer, wait_until
from tests.servers.forked import processes
from tests.support.hosts import uid

HOSTS = ("hv1", "hv2")
TIMES = {"report_interval": 1, "service_down_time": 3600}


class TwoHosts:
    """Two agents and a scheduler, and `rtagent` configured as their conductor."""

    def __init__(self, directory, transport_url, database_url=None, files=None):
        """:param files: of keys for the hosts, ``scheduler`` and ``nova``; None: without keys."""
        self.directory = directory
        shared = {} if database_url is None else {"database_url": database_url}
        self.agents = {}
        for name in HOSTS:
            file = directory / f"{name}.xml"
            simulate(file, Machine(hostname=f"{name}.example"))
            config = {
                "DEFAULT": {"host": name, "cpu_allocation_ratio": "4.0", **TIMES},
                **trust(files, name),
            }
            where = directory / name
            agent = Daemon(where, transport_url, uri=host_uri(file), config=config, **shared)
            self.agents[name] = agent.start()
        conductor = {
            "host_uri": f"test://{directory}/{{host}}.xml",
            "host_timeout": 8,
            "takeover_time": 1,
        }
        self.scheduler = SchedulerServer(
            directory / "cloud",
            transport_url,
            config={"DEFAULT": TIMES, "conductor": conductor, **trust(files, "scheduler")},
            **shared,
        ).start()
        self.config_file = self.scheduler.config_file
        if files is not None:
            keys = (str(files.file("scheduler")), str(files.file("nova")))
            self.config_file = directory / "conductor.conf"
            self.config_file.write_text(self.scheduler.config_file.read_text().replace(*keys))
        for each in (*self.agents.values(), self.scheduler):
            each.wait_ready()
        wait_until(self._all_are_up)

    def _all_are_up(self):
        return [host["up"] for host in self.scheduler.read("hosts")["hosts"]] == [True] * len(HOSTS)

    def rtagent(self, *words):
        """Run a command in this process."""
        return run("--config-file", str(self.config_file), "server", *words)

    def killed(self, point, *words):
        """Run a command in a process of its own, which is killed at a point."""
        argv = ("--config-file", str(self.config_file), "server", *words)
        process = processes.Process(target=_run_until, args=(point, signal.SIGKILL, argv))
        process.start()
        process.join(300)
        assert process.exitcode == -signal.SIGKILL, point

    @contextlib.contextmanager
    def suspended(self, point, *words):
        """Run a command in a process that is suspended at a point, until the end of a block."""
        argv = ("--config-file", str(self.config_file), "server", *words)
        process = processes.Process(target=_run_until, args=(point, signal.SIGSTOP, argv))
        process.start()
        late = psutil.Process(process.pid)
        wait_until(lambda: late.status() == psutil.STATUS_STOPPED)
        yield
        late.resume()
        process.join(300)
        assert process.exitcode == 0

    def books(self, server):
        """Return the hosts' files, and the claims of a server."""
        files = {name: (self.directory / f"{name}.xml").read_bytes() for name in HOSTS}
        return files, sorted(self.claims(server))

    @contextlib.contextmanager
    def gone(self, host):
        """Take a host away from the conductor, for the length of a block."""
        file = self.directory / f"{host}.xml"
        file.rename(self.directory / "gone")
        yield
        (self.directory / "gone").rename(file)
        wait_until(self._all_are_up)

    def claims(self, server):
        """Return where a server has claims: host and state."""
        return [
            (name, claim["state"])
            for name, agent in self.agents.items()
            for claim in agent.read("claims", instance=server)["claims"]
        ]

    def guests(self, server):
        """Return the hosts that have the server's domain."""
        return [name for name in HOSTS if server in (self.directory / f"{name}.xml").read_text()]

    def close(self):
        for each in (*self.agents.values(), self.scheduler):
            each.close()


def trust(files, key):
    """Return the options by which a daemon requires signatures."""
    if files is None:
        return {}
    return {"rpc": files.options(key, require_signature=True, verify_replies=True)}


def _run_until(point, number, argv):
    """Run a command that gets a signal before or after the work of a step: KIND.STEP.WHERE."""
    kind, name, where = point.split(".")

    def interrupted(step):
        def do(work):
            if where == "before":
                os.kill(os.getpid(), number)
            step.do(work)
            if where == "after":
                os.kill(os.getpid(), number)

        return replace(step, do=do) if step.name == name else step

    table = TABLES[kind]
    TABLES[kind] = replace(table, steps=tuple(map(interrupted, table.steps)))
    run(*argv)


@pytest.fixture(scope="module")
def cloud(tmp_path_factory, rabbitmq_server):
    made = TwoHosts(tmp_path_factory.mktemp("cloud"), rabbitmq_server.transport_url)
    yield made
    made.close()


@pytest.fixture
def server(cloud):
    """The uuid of a server, which is deleted afterwards."""
    uuid = uid()
    yield uuid
    assert cloud.rtagent("resume").code == Exit.OK
    assert cloud.rtagent("delete", uuid).code == Exit.OK
    assert cloud.claims(uuid) == []
    assert cloud.guests(uuid) == []


def build(server, *words):
    flavor = ("--vcpus", "1", "--memory", "512", "--root-gb", "1")
    return ("build", "web", "--uuid", server, *flavor, *words)


def test_a_server_lives(cloud, server):
    built = cloud.rtagent(*build(server, "--host", "hv1"), "-f", "json")
    assert (built.code, built.json["vm_state"], built.json["host"]) == (Exit.OK, "active", "hv1")
    steps = [line.partition(": ")[2] for line in built.err.splitlines()]
    assert f"build {server}: claim (hv1)" in steps
    [listed] = cloud.rtagent("list", "-f", "json").json
    assert (listed["uuid"], listed["name"], listed["host"]) == (server, "web", "hv1")

    resized = cloud.rtagent("resize", "web", "--memory", "1024", "-f", "json").json
    assert (resized["vm_state"], resized["host"], resized["memory_mb"]) == ("resized", "hv2", 1024)
    assert sorted(cloud.claims(server)) == [("hv1", "outgoing"), ("hv2", "active")]
    refused = cloud.rtagent("stop", "web")
    assert (refused.code, "must be active" in refused.err) == (Exit.CONFLICT, True)
    assert cloud.rtagent("revert", "web", "-f", "json").json["memory_mb"] == 512
    assert (cloud.claims(server), cloud.guests(server)) == ([("hv1", "active")], ["hv1"])

    arrived = cloud.rtagent("migrate", "--live", "web", "--host", "hv2", "-f", "json")
    assert arrived.code == Exit.OK, arrived.err
    arrived = arrived.json
    assert (arrived["vm_state"], arrived["host"]) == ("active", "hv2")
    cloud.rtagent("migrate", "web")
    assert cloud.rtagent("confirm", "web", "-f", "json").json["host"] == "hv1"
    assert cloud.rtagent("migrate", "--live", "web", "--host", "hv2").code == Exit.OK  # at once
    shelved = cloud.rtagent("shelve", "web", "-f", "json").json
    assert (shelved["vm_state"], shelved["host"]) == ("shelved_offloaded", None)
    assert cloud.claims(server) == []
    assert cloud.rtagent("unshelve", "web", "--availability-zone", "az9").code == Exit.REFUSED
    assert cloud.rtagent("unshelve", "web", "--availability-zone", "nova").code == Exit.OK
    assert cloud.rtagent("stop", "web", "-f", "json").json["vm_state"] == "stopped"
    assert cloud.rtagent("start", "web", "-f", "json").json["vm_state"] == "active"


def test_a_server_is_evacuated(cloud, server):
    assert cloud.rtagent(*build(server, "--host", "hv1")).code == Exit.OK
    refused = cloud.rtagent("evacuate", server)
    assert (refused.code, "the agent of hv1 answers" in refused.err) == (Exit.CONFLICT, True)
    arrived = cloud.rtagent("evacuate", server, "--host-is-down", "-f", "json").json
    assert (arrived["vm_state"], arrived["host"]) == ("active", "hv2")
    assert cloud.rtagent("resume").code == Exit.OK
    assert (cloud.claims(server), cloud.guests(server)) == ([("hv2", "active")], ["hv2"])


def test_a_server_is_deleted_although_its_host_is_gone(cloud, server):
    assert cloud.rtagent(*build(server, "--host", "hv1")).code == Exit.OK
    with cloud.gone("hv1"):
        stuck = cloud.rtagent("delete", server)
        assert (stuck.code, "stopped at the step undefine" in stuck.err) == (Exit.RETRY, True)
        wrong = cloud.rtagent("delete", server, "--force")
        assert (wrong.code, "--reason" in wrong.err) == (Exit.USAGE, True)
        forced = cloud.rtagent("delete", server, "--force", "--reason", "no disk")
        assert forced.code == Exit.OK, forced.err
        assert "hv1 still has to be cleared" in forced.err
        [owed] = cloud.rtagent("owed", "list", "-f", "json").json
        assert (owed["server"], owed["host"], owed["reason"]) == (server, "hv1", "no disk")
    assert cloud.rtagent("resume", owed["operation"]).code == Exit.OK
    assert (cloud.claims(server), cloud.guests(server)) == ([], [])
    dropped = cloud.rtagent("owed", "drop", owed["operation"], "--reason", "it is made")
    assert (dropped.code, cloud.rtagent("owed", "list", "-f", "json").json) == (Exit.NOT_FOUND, [])
    assert cloud.rtagent(*build(server)).code == Exit.OK  # the fixture deletes it


def test_errors_have_exit_codes(cloud):
    refused = cloud.rtagent("build", "big", "--vcpus", "1", "--memory", "99999999")
    assert refused.code == Exit.REFUSED, refused.err
    assert cloud.rtagent("delete", "big").code == Exit.OK
    wrong = cloud.rtagent("build", "bad", "--vcpus", "0", "--memory", "1")
    assert (wrong.code, "--vcpus" in wrong.err) == (Exit.USAGE, True)
    for words, why in (
        (("--uuid", "1"), "uuid"),
        (("--domain", "/nowhere.xml"), "--domain: cannot be read"),
        (("--domain", str(cloud.scheduler.config_file)), "--domain: cannot be read"),
    ):
        wrong = cloud.rtagent("build", "bad", "--vcpus", "1", "--memory", "1", *words)
        assert (wrong.code, why in wrong.err) == (Exit.USAGE, True), wrong.err
    for verb in ("confirm", "stop"):
        assert cloud.rtagent(verb, "none").code == Exit.NOT_FOUND
    assert cloud.rtagent("show", "none").code == Exit.NOT_FOUND
    assert cloud.rtagent("resume", uid()).code == Exit.NOT_FOUND


def test_a_build_that_is_killed_before_it_has_recorded_its_claim_is_resumed(cloud, server):
    cloud.killed("build.claim.after", *build(server))
    assert cloud.rtagent("resume").code == Exit.OK
    shown = cloud.rtagent("show", server, "-f", "json").json
    assert shown["vm_state"] == "active"
    assert cloud.claims(server) == [(shown["host"], "active")]
    assert cloud.guests(server) == [shown["host"]]


@pytest.mark.parametrize(
    ("before", "point", "then"),
    [
        ([], "build.define", ["delete"]),
        (["migrate", "--live", "--host", "hv2"], "live-migration.migrate", ["migrate", "--live"]),
    ],
)
def test_a_command_that_goes_on_after_others_does_no_harm(cloud, server, before, point, then):
    first = build(server, "--host", "hv1")
    if before:
        assert cloud.rtagent(*first).code == Exit.OK
        first = (before[0], server, *before[1:])
    with cloud.suspended(f"{point}.before", *first):
        assert cloud.rtagent("resume").code == Exit.OK
        done = cloud.rtagent(*then, server)
        assert done.code == Exit.OK, done.err
        books = cloud.books(server)
    assert cloud.books(server) == books
    if then == ["delete"]:
        assert cloud.rtagent(*build(server)).code == Exit.OK  # the fixture deletes it
