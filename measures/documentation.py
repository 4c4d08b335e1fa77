"""Build the documentation and check it: ``python -m measures.documentation`` (``tools/docs``
installs first).

1. Sphinx builds the pages and the manual pages; every warning is an error.
2. Every link within the pages leads to a page and an anchor that exist; external links are well
   formed (they are not fetched).
3. Every reStructuredText file outside ``doc/source`` parses without a warning, and its links to
   files lead to files.
4. Every release note is valid.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import yaml
from docutils import nodes
from docutils.core import publish_doctree
from docutils.utils import Reporter
from lxml import html
from reno.config import Config

ROOT = Path(__file__).resolve().parents[1]
SOURCE, BUILD = ROOT / "doc" / "source", ROOT / "doc" / "build"
#: Folders whose reStructuredText files are read on their own, as a code forge shows them.
LOOSE = (".", "benchmarks", "tests")


def main() -> int:
    """The exit code: 0 when nothing is wrong."""
    shutil.rmtree(BUILD, ignore_errors=True)
    problems = [*sphinx("html"), *sphinx("man")]
    if not problems:
        problems += broken_links(BUILD / "html")
    for path in sorted(path for folder in LOOSE for path in (ROOT / folder).glob("*.rst")):
        problems += loose(path)
    for path in sorted((ROOT / "releasenotes" / "notes").glob("*.yaml")):
        problems += wrong_note(path)
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print(f"The documentation is built: {BUILD / 'html' / 'index.html'}")
    return 1 if problems else 0


def sphinx(builder: str) -> list[str]:
    """Run a builder; its warnings and errors.

    They are read from a file, because oslo.config's directive keeps warnings about the help of an
    option from failing the build.
    """
    warnings = BUILD / f"{builder}.log"
    BUILD.mkdir(parents=True, exist_ok=True)
    command: list[str | Path] = [
        *(sys.executable, "-m", "sphinx", "-b", builder, "-q", "-W", "--keep-going"),
        *("-d", BUILD / "doctrees", "-w", warnings, SOURCE, BUILD / builder),
    ]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    found = [line for line in warnings.read_text().splitlines() if line.strip()]
    if done.returncode and not found:
        found = [f"sphinx-build -b {builder} failed:", done.stdout, done.stderr]
    return found


def broken_links(site: Path) -> Iterator[str]:
    """A sentence for each link of a built site that leads nowhere."""
    for page in sorted(site.rglob("*.html")):
        for link in _links(page):
            if wrong := _wrong(page, link):
                yield f"{page.relative_to(site)}: {link}: {wrong}"


def _wrong(page: Path, link: str) -> str:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return _malformed(link)
    target = page if not parts.path else (page.parent / unquote(parts.path)).resolve()
    if not target.is_file():
        return "no such file"
    anchored = parts.fragment and target.suffix == ".html"
    return "no such anchor" if anchored and unquote(parts.fragment) not in _anchors(target) else ""


def _malformed(link: str) -> str:
    parts = urlsplit(link)
    if parts.scheme == "mailto":
        return ""
    if parts.scheme not in ("http", "https"):
        return f"the scheme is {parts.scheme or 'missing'}"
    if not parts.hostname or any(character.isspace() for character in link):
        return "malformed"
    return ""


@cache
def _tree(page: Path) -> html.HtmlElement:
    return html.parse(page).getroot()


def _links(page: Path) -> list[str]:
    return sorted({*_tree(page).xpath("//a/@href"), *_tree(page).xpath("//link/@href")} - {"#"})


@cache
def _anchors(page: Path) -> frozenset[str]:
    return frozenset(_tree(page).xpath("//@id"))


def loose(path: Path) -> Iterator[str]:
    """What is wrong with a file that plain docutils renders."""
    messages = io.StringIO()
    settings = {
        "warning_stream": messages,
        "report_level": Reporter.WARNING_LEVEL,
        "halt_level": Reporter.SEVERE_LEVEL + 1,
        "input_encoding": "utf-8",
    }
    document = publish_doctree(
        path.read_bytes(), source_path=str(path), settings_overrides=settings
    )
    yield from messages.getvalue().splitlines()
    for reference in document.findall(nodes.reference):
        link = reference.get("refuri", "")
        parts = urlsplit(link)
        if parts.scheme:
            wrong = _malformed(link)
        else:
            missing = parts.path and not (path.parent / unquote(parts.path)).exists()
            wrong = "no such file" if missing else ""
        if wrong:
            yield f"{path.name}: {link}: {wrong}"


def wrong_note(path: Path) -> Iterator[str]:
    """What is wrong with a release note. (``reno lint`` needs the whole history of git.)"""
    try:
        note = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        yield f"{path.name}: {error}"
        return
    config = Config(str(ROOT))
    sections = {config.prelude_section_name, *(section.name for section in config.sections)}
    for name, content in note.items() if isinstance(note, dict) else [("", note)]:
        if name not in sections:
            yield f"{path.name}: no section {name!r}; there are {', '.join(sorted(sections))}"
        elif not all(isinstance(each, str) for each in content):
            yield f"{path.name}: {name}: must be text, or a list of texts"


if __name__ == "__main__":
    sys.exit(main())
