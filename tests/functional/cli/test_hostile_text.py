"""One hostile text in every place of every document, through every command: as a table, and as
JSON. What the other formats make of a cell is that of `rtagent.cmd.output`, and is tested there; a
list and an item show that they do.

A read API, an agent and a scheduler answer in this process. Every text of their documents is
replaced, so that a column that is added later is covered.
"""

import csv
import io
import json
import re
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace
from oslo_config import cfg

from rtagent.api.events import tail_of
from rtagent.claims import instance_claim
from rtagent.cmd.base import Action
from rtagent.cmd.exit_codes import Exit
from rtagent.cmd.rtagent import GROUP, Shell
from rtagent.conductor.run import Progress
from rtagent.conf import load
from rtagent.conf.settings import Settings
from rtagent.db import migrate
from rtagent.db.engine import open_engine
from rtagent.db.registry import SqlServiceRegistry
from rtagent.db.server_rows import SqlServerStore
from rtagent.model.event import RecordedEvents
from rtagent.model.request import Flavor
from rtagent.model.server import Place, RequestSpec, Server, ServerOperation
from rtagent.rpc import AGENT, SCHEDULER
from rtagent.scheduler.aggregate_rules import with_host
from rtagent.scheduler.explanation import ExplainedHost, Objection
from tests.functional.cli.answering import answering
from tests.functional.cli.shell import Outcome, run
from tests.support.api_states import PageFleet, moved, populated, simulated, sources, uuid
from tests.support.hosts import NOON, call, request, uid
from tests.support.odd_documents import HOSTILE, SpoiledEndpoint, SpoiledSources
from tests.support.owned_hosts import devices_in_every_state, pinned_host
from tests.support.pci_hosts import GPU_0
from tests.support.rpc import Agent
from tests.support.scheduler_rpc import SchedulerRpc
from tests.support.scheduling import spec

POINTS = {point.name.replace("_", " "): point for point in entry_points(group=GROUP)}

#: By the document that its column comes from: what the agent's read API shows.
STATES = {
    "claims": populated(),
    "moves": moved().state,
    "devices": devices_in_every_state(),
    "pins": pinned_host(),
}
#: Replaced by a uuid that no other command line has.
NEW = "new"
#: Claims of the agent.
BUILDING, LEASED = uid(901), uid(902)
#: A server for which a host was selected.
DECIDED = uid(903)
REQUEST = ("--vcpus", "1", "--memory", "64")
#: The commands that show text of others, with their arguments; and the state, if it matters.
COMMANDS: dict[str, tuple[tuple[str, ...], str]] = {
    "aggregate add host": (("racks", NEW), "claims"),
    "aggregate create": ((NEW,), "claims"),
    "aggregate list": ((), "claims"),
    "aggregate set": (("racks", "--property", "a=b"), "claims"),
    "audit run": ((), "claims"),
    "capacity list": (("--long",), "claims"),
    "capacity show": (("unnamed",), "claims"),
    "claim activate": ((BUILDING,), "claims"),
    "claim create": (("--instance", NEW, *REQUEST), "claims"),
    "claim list": (("--long",), "claims"),
    "claim renew": ((LEASED,), "claims"),
    "claim show": ((uuid(1),), "claims"),
    "claim test": (("--instance", NEW, *REQUEST), "claims"),
    "drift list": ((), "claims"),
    "events": ((), "claims"),
    "host list": (("--long",), "claims"),
    "host show": (("compute-0000",), "claims"),
    "migration list": ((), "moves"),
    "node drain": (("--status",), "claims"),
    "node list": ((), "claims"),
    "node show": ((), "claims"),
    "numa show": ((), "pins"),
    "orphan list": ((), "claims"),
    "pci list": (("--long",), "devices"),
    "pci show": ((GPU_0,), "devices"),
    "resource list": (("--long",), "devices"),
    "schedule advise": (REQUEST, "claims"),
    "schedule capacity": ((), "claims"),
    "schedule decision": ((DECIDED,), "claims"),
    "schedule explain": (REQUEST, "claims"),
    "server list": ((), "claims"),
    "server owed list": ((), "claims"),
    "server show": ((uid(1),), "claims"),
    "service list": ((), "claims"),
}

FORMATS = ("table", "json")
#: Of a list, and of an item.
MORE_FORMATS = {
    "claim list": ("value", "csv", "yaml"),
    "claim show": ("value", "csv", "yaml", "shell"),
}
#: Beginnings of a formula, as spreadsheets find them.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Shown:
    """The state that the agent's read API shows. :ivar name: a key of `STATES`."""

    def __init__(self) -> None:
        self.name = "claims"

    def answer(self, target: str) -> Any:
        return replace(sources(STATES[self.name]), events=tail_of(_events())).answer(target)


@pytest.fixture(scope="module")
def shown() -> Shown:
    return Shown()


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory, shown: Shown) -> Iterator[Path]:
    """The configuration of an agent and a scheduler that answer in this process."""
    agent, scheduler = _agent(), _scheduler()
    endpoints = {
        AGENT: SpoiledEndpoint(agent.endpoint),
        SCHEDULER: SpoiledEndpoint(scheduler.endpoint),
    }
    fleet = PageFleet(simulated(0), simulated(32))
    fleet.scheduler.select_destinations(spec(), [DECIDED], alternates=True)
    documents = {"api": SpoiledSources(shown), "scheduler": SpoiledSources(fleet.sources)}
    directory = tmp_path_factory.mktemp("hostile")
    with answering(directory, agent, endpoints, documents) as file:
        conf = load.parse(cfg.ConfigOpts(), [f"--config-file={file}"], "rtagent")
        _write_database(load.read_options(conf))
        yield file


#: The commands that are left out, by the reason.
LEFT_OUT = {
    "they print the row of a command above": (
        *("aggregate remove host", "server build", "server confirm", "server evacuate"),
        *("server migrate", "server resize", "server revert", "server shelve", "server start"),
        *("server stop", "server unshelve"),
    ),
    "they print words of this program, and names that its operator has given it": (
        *("config check", "config generate", "db accept", "db backup", "db check", "db history"),
        *("db purge", "db restore", "db sync", "db version", "doctor", "host simulate"),
        *("schema list", "schema reference", "schema show", "token create", "token list"),
        *("policy generate", "policy list", "key generate", "key list", "broker definitions"),
        "upgrade check",
    ),
    "they need a Placement, or a restored host; their rows go the way of all others": (
        *("placement diff", "placement orphans", "placement orphans delete", "placement reshape"),
        *("placement show", "placement sync", "node accept-restore", "orphan adopt"),
        "claim history",
    ),
    "it prints a document of libvirt: tests/unit/cmd/test_cells.py": ("claim domain",),
}


def test_every_command_that_prints_is_in_a_table() -> None:
    listed = {*COMMANDS, *(name for names in LEFT_OUT.values() for name in names)}
    printing = {name for name, point in POINTS.items() if not issubclass(point.load(), Action)}
    assert printing == listed


@pytest.mark.parametrize("name", COMMANDS)
def test_no_format_of_a_command_shows_it_raw(name: str, config: Path, shown: Shown) -> None:
    arguments, shown.name = COMMANDS[name]
    for format_ in (*FORMATS, *MORE_FORMATS.get(name, ())):
        given = [uid() if each == NEW else each for each in arguments]
        argv = ["--config-file", str(config), *name.split(), *given, "-f", format_]
        check(format_, run(*argv))


def check(format_: str, outcome: Outcome) -> None:
    assert outcome.code in (Exit.OK, Exit.REFUSED), outcome.err
    check_raw(outcome.err)
    check_raw(outcome.out)
    match format_:
        case "json":
            assert HOSTILE in texts(json.loads(outcome.out))
        case "yaml":
            assert HOSTILE in texts(yaml.safe_load(outcome.out))
        case "csv":
            rows = list(csv.reader(io.StringIO(outcome.out)))
            assert len({len(row) for row in rows}) == 1
            assert not [cell for row in rows for cell in row if cell.startswith(FORMULA)]
            assert "FORGED" in outcome.out
        case "shell" if outcome.code == Exit.OK:
            assert not re.search(r"(?<!\\)[$`]", outcome.out)
            assert "FORGED" in outcome.out
        case _:
            assert "FORGED" in outcome.out


def check_raw(text: str) -> None:
    """No character has an effect, and no line begins with what follows a line end."""
    raw = [char for char in text if not char.isprintable() and char != "\n"]
    assert not raw, (raw, text)
    assert not [line for line in text.splitlines() if line.strip(" |\"'").startswith("FORGED")]


def texts(document: Any) -> set[str]:
    """Every text of a document."""
    if isinstance(document, str):
        return {document}
    within = document.values() if isinstance(document, dict) else document
    return set().union(*map(texts, within)) if isinstance(document, dict | list) else set()


class Interrupted(io.StringIO):
    """The terminal of a user who interrupts the command after its first lines."""

    def flush(self) -> None:
        if self.getvalue():
            raise KeyboardInterrupt


@pytest.mark.parametrize("format_", ["table", "csv", "json"])
def test_events_that_are_followed_are_not_shown_raw(format_: str, config: Path) -> None:
    out, err = Interrupted(), io.StringIO()
    argv = ["--config-file", str(config), "events", "--follow", "-f", format_]
    code = Shell(out, err).run(argv)
    check(format_, Outcome(code, out.getvalue(), err.getvalue()))
    assert out.getvalue().count("\n") == 1


@pytest.mark.parametrize("argv", [("claim", "show", "gone"), ("claim", "activate", uid())])
def test_an_error_of_the_agent_is_one_printable_line(argv: tuple[str, ...], config: Path) -> None:
    outcome = run("--config-file", str(config), *argv)
    assert outcome.code
    assert outcome.err.count("\n") == 1 and "FORGED" in outcome.err
    check_raw(outcome.err)


# -- parts ----------------------------------------------------------------------------------------


def _events() -> list[RecordedEvents]:
    payload = {
        "action": "create",
        "state": "building",
        "owner_id": "o",
        "reason": "r",
        "claim_uuid": "c",
    }
    event = {
        "sequence": 1,
        "id": "1-1",
        "event_type": "claim.create",
        "at": "2030-01-01T00:00:00Z",
        "host": "h",
        "payload": payload,
    }
    return [RecordedEvents(last=1, epoch=1, documents=(json.dumps(event).encode(),))]


def _agent() -> Agent:
    agent = Agent()
    for operation_id in (BUILDING, LEASED):
        agent.tracker.create(
            instance_claim, replace(call("instance_claim"), operation_id=operation_id), request()
        )
    return agent


def _scheduler() -> SchedulerRpc:
    scheduler = SchedulerRpc()
    scheduler.aggregates.create("racks", {}, uid())
    scheduler.aggregates.change("racks", with_host, "cn1")
    capacity = simulated(0).capacity
    objection = Objection(filter="f", message="m")
    scheduler.selecting.explained = (
        ExplainedHost(
            host="h", nodename="h", node_uuid=uid(), capacity=capacity, objections=(objection,)
        ),
    )
    return scheduler


def _write_database(found: Settings) -> None:
    """Servers, what is owed to a host, and a service that was disabled."""
    engine = open_engine(found.conductor.connection, 10.0)
    migrate.sync(engine)
    place = Place(host=HOSTILE, node_uuid=uid(5), claim={"uuid": HOSTILE})
    spec = RequestSpec(
        flavor=Flavor(name=HOSTILE, vcpus=1, memory_mb=1), project_id=HOSTILE, user_id=HOSTILE
    )
    server = Server(
        uuid=uid(1),
        name=HOSTILE,
        spec=spec,
        vm_state="active",
        created_at=NOON,
        updated_at=NOON,
        place=place,
        operation_uuid=uid(2),
    )
    progress = Progress(spec=spec, was="active", source=place, reason=HOSTILE)
    owed = ServerOperation(
        uuid=uid(2),
        server_uuid=uid(1),
        kind="owed-call",
        step="call",
        created_at=NOON,
        updated_at=NOON,
        progress=progress.document(),
        error={"message": HOSTILE},
    )
    assert SqlServerStore(engine).begin(owed, server, None) == "begun"
    engine.dispose()
    engine = open_engine(found.database.connection, 10.0)
    migrate.sync(engine)
    registry = SqlServiceRegistry(engine)
    registry.heartbeat("cn1", NOON)
    registry.set_disabled("cn1", True, HOSTILE)
    engine.dispose()
