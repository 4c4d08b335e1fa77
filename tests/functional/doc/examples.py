"""Run the commands that a page of the documentation shows.

To put what they print now into the pages::

    .venv/bin/python -m tests.functional.doc.examples
"""

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from tests.servers import RabbitMQ
from tests.servers.daemon import Daemon
from tests.servers.forked import run_rtagent

SOURCE = Path(__file__).resolve().parents[3] / "doc" / "source"
#: Pages whose section "Try it" describes a host, its configuration, and commands.
TRIALS = ("user/numa.rst", "user/pci.rst")
#: The page whose commands make a cloud from nothing, given only a broker.
TUTORIAL = "user/cloud.rst"
#: Pages whose commands are run one after the other, on one host.
STORY = ("user/claims.rst", "reference/events.rst", "admin/upgrade.rst")

#: What a test says if a page shows something else.
REMEDY = "run: .venv/bin/python -m tests.functional.doc.examples"

_TRY_IT = re.compile(r"\nTry it\n=+\n(.*?)\n[^\n]+\n=+\n", re.DOTALL)
_BLOCK = re.compile(r"^(?:\.\. code-block:: (\w+)|.*::)\n\n((?: {4}.*\n|\n)+)", re.MULTILINE)
#: A command of which a shell would only separate and unquote the words.
_PLAIN = re.compile(r"rtagent (?:'[^']*'|[^'|&;<>$`*?(){}~#\\\n])*\n?")
_VARIABLE = (
    (re.compile(r"\b(?!0{8})[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "<uuid>"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "<a time, RFC 3339>"),
    (re.compile(r"\b\d+ ms\b"), "<n> ms"),
)


def comparable(text: str) -> str:
    """The text without what differs from run to run."""
    for pattern, word in _VARIABLE:
        text = pattern.sub(word, text)
    return text


def trial(page: str, directory: Path, transport_url: str) -> str:
    """The page with what the commands of its section "Try it" print.

    The host is simulated first; each block of configuration starts the daemon anew.
    """
    found = _TRY_IT.search(page)
    assert found is not None
    extra = directory / "extra.conf"
    extra.touch()
    section = _Section(directory, (directory / "rtagent.conf", extra))
    blocks = list(_BLOCK.finditer(found[1]))
    (simulate,) = (block[2] for block in blocks if "host simulate" in block[2])
    section.shell(simulate)
    with closing(Daemon(directory, transport_url, config=HOST)) as daemon:
        daemon.start("--config-file", str(extra)).wait_ready()

        def play(block: re.Match[str]) -> str:
            if block[1] == "ini":
                extra.write_text(re.sub("(?m)^ +", "", block[2]))
                daemon.terminate()
                daemon.start("--config-file", str(extra)).wait_ready()
            return section.play(block)

        return page[: found.start(1)] + _BLOCK.sub(play, found[1]) + page[found.end(1) :]


def story(pages: list[str], directory: Path, transport_url: str) -> list[str]:
    """The pages with what their commands print."""
    section = _Section(directory, (directory / "rtagent.conf",))
    with closing(Daemon(directory, transport_url, config=HOST)) as daemon:
        daemon.start().wait_ready()
        return [_BLOCK.sub(section.play, page) for page in pages]


def tutorial(page: str, directory: Path, transport_url: str) -> str:
    """The page with what its commands print. Daemons that they start are ended."""
    section = _Section(directory, (directory / "cloud.conf",), BROKER=transport_url)
    try:
        return _BLOCK.sub(section.play, page)
    finally:
        for file in directory.glob("*.pid"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(file.read_text()), signal.SIGKILL)


HOST = {"DEFAULT": {"host": "hypervisor-1"}}


class _Section:
    """Runs the blocks of a page in a directory."""

    def __init__(self, directory: Path, configuration: tuple[Path, ...], **variables: str) -> None:
        self._directory = directory
        self._environment = {
            **os.environ,
            **variables,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "COLUMNS": "110",
            "RTAGENT_CONFIG_FILE": " ".join(map(str, configuration)),
        }

    def play(self, block: re.Match[str]) -> str:
        """A block of commands with what they print; any other as it is."""
        if block[1] != "console":
            return block[0]
        shown = re.sub("(?m)^ {4}", "", block[2]).strip("\n")
        printed = "\n".join(self._commands(shown))
        indented = re.sub("(?m)^(?=.)", "    ", printed)
        return f"{block[0][: block.start(2) - block.start()]}{indented}\n{_blanks(block[2])}"

    def _commands(self, shown: str) -> Iterator[str]:
        for each in re.split(r"(?m)^(?=\$ )", shown)[1:]:
            continued = re.match(r"(?:.*\\\n)*.*", each)
            line = continued[0] if continued else ""
            before = each.removeprefix(line).removeprefix("\n")
            command = line.removeprefix("$ ")
            if command.startswith("cat "):  # a page shows what the reader writes into it
                (self._directory / command[4:]).write_text(before.strip() + "\n")
            gap = "\n" if each.endswith("\n\n") else ""
            yield f"{line}\n{self.shell(command)}".rstrip() + gap

    def shell(self, command: str) -> str:
        """What a command prints: its result, then its messages."""
        if _PLAIN.fullmatch(line := command.replace("\\\n", " ")):
            done = run_rtagent(
                shlex.split(line)[1:], self._environment, self._directory, merged=False
            )
            return _without_blanks(done.stdout + done.stderr)
        done = subprocess.run(
            ["sh", "-c", command],
            check=False,
            cwd=self._directory,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        return _without_blanks(done.stdout + done.stderr)


def _without_blanks(text: str) -> str:
    return re.sub(r"(?m) +$", "", text)


def _blanks(text: str) -> str:
    """The empty lines at the end of a block."""
    return "\n" * (len(text) - len(text.rstrip("\n")) - 1)


def write(page: Path, text: str) -> None:
    """Replace a page, unless it shows the same."""
    if comparable(text) != comparable(page.read_text()):
        page.write_text(text)


def main() -> None:
    with RabbitMQ() as rabbitmq:
        for name in TRIALS:
            with tempfile.TemporaryDirectory() as directory:
                page = SOURCE / name
                write(page, trial(page.read_text(), Path(directory), rabbitmq.transport_url))
        with tempfile.TemporaryDirectory() as directory:
            page = SOURCE / TUTORIAL
            write(page, tutorial(page.read_text(), Path(directory), rabbitmq.transport_url))
        with tempfile.TemporaryDirectory() as directory:
            pages = [SOURCE / name for name in STORY]
            texts = [page.read_text() for page in pages]
            printed = story(texts, Path(directory), rabbitmq.transport_url)
            for page, text in zip(pages, printed, strict=True):
                write(page, text)


if __name__ == "__main__":
    main()
