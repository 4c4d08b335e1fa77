"""Directives and roles of rtagent's documentation: content that is generated from the code, and
links to it.

* ``.. rpc-reference:: TOPIC`` is the page that ``rtagent schema reference --topic TOPIC`` prints.
* ``.. error-list:: CLASS MODULE`` is a table of the errors of a module below a class of
  ``rtagent.errors``.
* ``.. role-list::`` is a table of the roles of callers and of the methods that need them.
* ``.. exit-codes::`` lists the exit codes of ``rtagent``.
* ``.. published:: FILE NAME`` is the plot of a table of figures, and the table behind it: see
  ``measures/published.py``. FILE is beside the page.
* ``.. release-notes::`` are reno's: by release where git's history and tags are at hand, else all
  of them under this version. (reno's own directive fails in a shallow clone and without git.)
* ``:rpc:`instance_claim``` links to an RPC method, ``:cmd:`claim create``` to a command. A name
  that does not exist is a warning, and so fails the build.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from dulwich.errors import NotGitRepository
from dulwich.repo import Repo
from reno import formatter
from reno.config import Config
from reno.loader import Loader
from sphinx.application import Sphinx
from sphinx.util.nodes import nested_parse_with_titles

import rtagent
from measures import published
from rtagent import errors
from rtagent.cmd import rtagent as cli
from rtagent.cmd.exit_codes import MEANINGS
from rtagent.rpc import AGENT, SCHEDULER, roles
from rtagent.rpc.methods import TABLES
from rtagent.rpc.reference import reference

ROOT = Path(__file__).resolve().parents[3]

#: The name of the subject of a page's sections, and the object type by which links find them.
SECTIONS = {
    "reference/rpc": "rpcmethod",
    "reference/scheduler-rpc": "rpcmethod",
    "cli/rtagent": "command",
}


class Shell(cli.Shell):
    """The application without its list of exit codes, which the directive ``exit-codes`` shows."""

    def build_option_parser(self, *args: Any, **kwargs: Any) -> argparse.ArgumentParser:
        parser = super().build_option_parser(*args, **kwargs)
        parser.epilog = None
        return parser


class Generated(Directive):
    """A directive whose content is reStructuredText made from the code."""

    def lines(self) -> Iterator[str]:
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        made = nodes.section()
        made.document = self.state.document
        text = StringList(list(self.lines()), source=f"<{self.name}>")
        nested_parse_with_titles(self.state, text, made)
        return made.children


class RpcReference(Generated):
    required_arguments = 1

    def lines(self) -> Iterator[str]:
        # Omit the title, because the page has its own.
        yield from reference(self.arguments[0]).splitlines()[2:]


class ErrorList(Generated):
    required_arguments = 2

    def lines(self) -> Iterator[str]:
        kind, module = self.arguments
        yield from _table(("Error", "Meaning"), _errors(getattr(errors, kind), module))


class RoleList(Generated):
    def lines(self) -> Iterator[str]:
        yield from _table(("Role", "Meaning", "Has it", "Methods"), _roles())


class ExitCodes(Generated):
    def lines(self) -> Iterator[str]:
        for code, meaning in MEANINGS.items():
            yield from (f"``{code:d}``", f"    {meaning}", "")


class ReleaseNotes(Generated):
    def lines(self) -> Iterator[str]:
        config = Config(str(ROOT))
        if _has_releases():
            with Loader(config) as loader:
                text = formatter.format_report(loader, config, loader.versions, show_source=False)
        else:
            text = formatter.format_report(
                _Files(), config, [rtagent.__version__], show_source=False
            )
        yield from text.splitlines()


class Figures(Generated):
    required_arguments = 2

    def lines(self) -> Iterator[str]:
        file, name = self.arguments
        path = Path(self.state.document["source"]).with_name(file)
        self.state.document.settings.env.note_dependency(str(path))
        figures = published.read(path)[name]
        drawn = published.plot(figures, inline=True)
        yield from _raw(*drawn.splitlines(), "<details><summary>The numbers</summary>")
        yield from published.table(figures)
        yield ""
        yield from _raw("</details>")


def _raw(*lines: str) -> Iterator[str]:
    yield from (".. raw:: html", "", *(f"   {line}" for line in lines), "")


class _Files:
    """The loader for reno's formatter: the notes of the working tree, as one version."""

    def __getitem__(self, version: str) -> list[tuple[str, str]]:
        return [(str(path), "") for path in sorted((ROOT / "releasenotes/notes").glob("*.yaml"))]

    def parse_note_file(self, filename: str, sha: str) -> dict[str, Any]:
        content: dict[str, Any] = yaml.safe_load(Path(filename).read_text())
        return content


def _has_releases() -> bool:
    try:
        with Repo(str(ROOT)) as repository:
            return not repository.get_shallow() and bool(repository.refs.as_dict(b"refs/tags"))
    except NotGitRepository:
        return False


def _errors(kind: type[errors.RtAgentError], module: str) -> Iterator[tuple[str, ...]]:
    for each in kind.__subclasses__():
        if each.__module__ == module:
            meaning = (each.__doc__ or "").partition("\n")[0].partition(" :ivar")[0]
            yield f"``{each.__name__}``", meaning
        yield from _errors(each, module)


def _roles() -> Iterator[tuple[str, ...]]:
    for role, meaning in roles.MEANINGS.items():
        names = sorted(
            {
                f":rpc:`{method.name}`"
                for table in TABLES.values()
                for method in table.methods.values()
                if method.role == role
            }
        )
        yield f"``{role}``", meaning, ", ".join(roles.ENOUGH[role]), ", ".join(names)


def _table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    yield ".. list-table::"
    yield "   :header-rows: 1"
    yield ""
    for row in (head, *rows):
        for place, cell in enumerate(row):
            yield f"   {'  ' if place else '* '}- {cell}"
    yield ""


def _note_sections(app: Sphinx, document: nodes.document) -> None:
    """Make the sections of generated pages known to the roles."""
    docname = app.env.docname
    kind = SECTIONS.get(docname)
    if kind is None:
        return
    names = _names(docname, kind)
    for section in document.findall(nodes.section):
        title = section.next_node(nodes.title)
        if title is not None and title.astext() in names:
            app.env.domains.standard_domain.note_object(kind, title.astext(), section["ids"][0])


def _leave_out_of_alt(app: Sphinx, document: nodes.document) -> None:
    """Let no screen reader spell a drawing. The text beside a drawing says what it shows."""
    for image in document.findall(nodes.image):
        if "svgbob" in image:
            image["alt"] = ""


def _names(docname: str, kind: str) -> set[str]:
    if kind == "command":
        return set(cli.Commands(cli.GROUP).commands)
    agents, schedulers = TABLES[AGENT].methods, TABLES[SCHEDULER].methods
    if docname == "reference/rpc":
        return set(agents)
    return set(schedulers) - set(agents)  # the links to others lead to the agents' page


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("rpc-reference", RpcReference)
    app.add_directive("error-list", ErrorList)
    app.add_directive("role-list", RoleList)
    app.add_directive("exit-codes", ExitCodes)
    app.add_directive("published", Figures)
    app.add_directive("release-notes", ReleaseNotes)
    app.add_crossref_type("rpcmethod", "rpc")
    app.add_crossref_type("command", "cmd")
    app.connect("doctree-read", _note_sections)
    app.connect("doctree-read", _leave_out_of_alt)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
