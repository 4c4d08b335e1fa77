"""What the daemon imports: it stays in memory for as long as the host runs."""

import subprocess
import sys

import pytest

#: Packages that only commands, pages, other databases, signed calls or tests use.
OTHERS = (
    *("eventlet", "greenlet"),
    *("cliff", "rich", "jsonschema"),
    *("cryptography", "bcrypt", "jinja2", "chardet", "charset_normalizer"),
    *("psycopg", "pymysql", "alembic", "mako"),
    *("rtagent.conductor", "rtagent.scheduler.filters", "rtagent.virt.simulate", "tests"),
)


@pytest.fixture(scope="module")
def imported():
    """The modules of a new interpreter that has imported the daemon."""
    code = "import sys, rtagent.cmd.rtagentd; print(*(n for n, m in sys.modules.items() if m))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return run.stdout.split()


@pytest.mark.parametrize("package", OTHERS)
def test_daemon_does_not_import(package, imported):
    assert [n for n in imported if n == package or n.startswith(f"{package}.")] == []


def test_library_that_looks_for_eventlet_can_be_imported_after_a_program():
    code = "import rtagent.cmd, oslo_messaging"
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)


def test_programs_read_answers_that_name_no_encoding_as_utf_8():
    code = (
        "import io, rtagent.cmd, requests; answer = requests.Response();"
        " answer.raw = io.BytesIO('Zürich'.encode()); print(ascii(answer.text))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (run.stdout.strip(), run.stderr) == (ascii("Zürich"), "")
