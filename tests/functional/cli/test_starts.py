"""What a start imports and reads: a host starts commands and daemons thousands of times."""

import json
import subprocess
import sys
from pathlib import Path

from rtagent.api.address import UnixAddress
from rtagent.api.server import ReadAPI
from tests.functional.cli.shell import run
from tests.servers.daemon import Daemon
from tests.support.api_states import sources
from tests.support.owned_hosts import WEB_CLAIM, devices_in_every_state

#: Packages that no command without a connection to a broker, a database or Placement uses.
SERVERS = {
    *("alembic", "kombu", "keystoneauth1", "libvirt", "lxml", "oslo_messaging", "oslo_policy"),
    *("requests", "sqlalchemy", "urllib3", "waitress"),
}
#: Packages that only some of the other commands use.
OTHERS = {"asyncio", "cmd2", "cryptography", "eventlet", "jinja2", "jsonschema", "rich", "yaml"}
#: Packages with which a command reads the configuration.
CONFIGURATION = {"msgspec", "netaddr", "oslo_config"}
#: Packages that an agent without signed calls, pages and migrations does not use.
UNUSED = {
    *("alembic", "bcrypt", "cliff", "cryptography", "jinja2", "jsonschema", "mako", "prettytable"),
    *("psycopg", "pymysql", "pygments", "rich", "greenlet", "tests"),
    *("rtagent.conductor", "rtagent.scheduler.filters", "rtagent.virt.simulate"),
}
#: Runs a command; the last line has the modules, and the files of metadata that were opened.
PROGRAM = """
import json, sys
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
from rtagent.cmd.rtagent import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
imported = [name for name, module in sys.modules.items() if module]
print(json.dumps([imported, [path for path in opened if path.endswith("METADATA")]]))
"""


def started(*argv: str) -> tuple[str, set[str], set[str]]:
    """Return the first line that a command prints, the packages that it has imported, and the
    distributions whose metadata it has read."""
    command = [sys.executable, "-c", PROGRAM, *argv]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    first, *_, last = ended.stdout.splitlines()
    imported, opened = json.loads(last)
    distributions = {Path(path).parent.name.partition("-")[0].lower() for path in opened}
    return first, {name.partition(".")[0] for name in imported}, distributions


def test_the_version_is_printed_without_the_configuration_and_servers():
    first, imported, distributions = started("--version")
    assert first.startswith("rtagent ")
    assert imported & (SERVERS | OTHERS | CONFIGURATION) == set()
    assert distributions & SERVERS == set()


def test_claims_are_listed_without_libraries_of_servers_and_other_distributions(tmp_path):
    api = ReadAPI(UnixAddress(str(tmp_path / "socket")), sources(devices_in_every_state()))
    api.start()
    try:
        listing = ["claim", "list", "-f", "value", "-c", "uuid"]
        first, imported, distributions = started("--socket", str(tmp_path / "socket"), *listing)
    finally:
        api.stop()
    assert first == WEB_CLAIM.uuid
    assert imported & (SERVERS | OTHERS) == set()
    assert distributions & SERVERS == set()


def test_an_agent_with_a_current_database_imports_no_migrations_pages_or_commands(tmp_path):
    daemon = Daemon(tmp_path, "fake://", environment={"PYTHONPROFILEIMPORTTIME": "1"})
    daemon.forked = False
    assert run("--config-file", str(daemon.config_file), "db", "sync").code == 0
    with daemon:
        daemon.wait_ready()
        lines = daemon.log.read_text().splitlines()
    imported = {line.rpartition("|")[2].strip() for line in lines if "import time:" in line}
    assert "sqlalchemy" in imported
    packages = {name.rsplit(".", depth)[0] for name in imported for depth in range(4)}
    assert packages & UNUSED == set()


def test_library_that_looks_for_eventlet_is_imported_without_it():
    code = (
        "import sys, rtagent.cmd, oslo_messaging;"
        " sys.exit(any(map(sys.modules.get, ('eventlet', 'chardet', 'charset_normalizer'))))"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)


def test_programs_read_answers_that_name_no_encoding_as_utf_8():
    code = (
        "import io, rtagent.cmd, requests; answer = requests.Response();"
        " answer.raw = io.BytesIO('Zürich'.encode()); print(ascii(answer.text))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (run.stdout.strip(), run.stderr) == (ascii("Zürich"), "")
