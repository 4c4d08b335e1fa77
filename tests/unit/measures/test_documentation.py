"""The checks of the documentation find what is wrong."""

from pathlib import Path

import pytest

from measures import documentation


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "admin").mkdir()
    (tmp_path / "index.html").write_text('<p id="top">x</p>')
    return tmp_path


@pytest.mark.parametrize(
    "link", ["../index.html", "../index.html#top", "https://docs.openstack.org/nova", "page.html"]
)
def test_a_good_link_is_not_reported(site: Path, link: str):
    (site / "admin" / "page.html").write_text(f'<a href="{link}">x</a>')
    assert list(documentation.broken_links(site)) == []


@pytest.mark.parametrize(
    "link", ["../missing.html", "../index.html#bottom", "#here", "https://", "htps://example.org"]
)
def test_a_broken_link_is_reported_with_its_page(site: Path, link: str):
    (site / "admin" / "page.html").write_text(f'<a href="{link}">x</a>')
    (problem,) = documentation.broken_links(site)
    assert problem.startswith(f"admin/page.html: {link}: ")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("A `file <missing.rst>`_.", "missing.rst: no such file"),
        ("A long title\n====\n", "Title underline too short"),
        ("A Reference_ to nothing.", "Unknown target name"),
        ("A `link <http:///path>`_.", "malformed"),
    ],
)
def test_a_wrong_file_outside_the_pages_is_reported(tmp_path: Path, text: str, problem: str):
    file = tmp_path / "page.rst"
    file.write_text(text)
    assert any(problem in line for line in documentation.loose(file))


@pytest.mark.parametrize("name", ["README.rst", "CONTRIBUTING.rst"])
def test_the_files_at_the_top_are_correct(name: str):
    assert list(documentation.loose(documentation.ROOT / name)) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- a list", "no section ''"),
        ("feature:\n  - x", "no section 'feature'"),
        ("features:\n  - a: mapping", "features: must be text"),
        ("features: [", "page.yaml"),
    ],
)
def test_a_wrong_release_note_is_reported(tmp_path: Path, text: str, problem: str):
    file = tmp_path / "page.yaml"
    file.write_text(text)
    assert any(problem in line for line in documentation.wrong_note(file))
