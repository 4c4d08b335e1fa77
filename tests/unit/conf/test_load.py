"""Parsing the command line and the files."""

import pytest
from oslo_config import cfg

from rtagent.conf import load


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (None, "Failed to find some config files"),
        (b"[x\n", "Failed to parse"),
        (b"\xff\n", "codec can't decode"),
    ],
)
def test_unreadable_file_is_a_mistake(tmp_path, content, part):
    file = tmp_path / "rtagent.conf"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(ExceptionGroup) as caught:
        load.parse(cfg.ConfigOpts(), ["--config-file", str(file)], "rtagentd")

    (error,) = caught.value.exceptions
    assert part in str(error)
    assert str(file) in str(error)


def test_a_file_that_program_and_project_share_is_read_once(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / "rtagent.conf"
    file.write_text("[DEFAULT]\nhost = cn1\n")
    assert load.parse(cfg.ConfigOpts(), [], "rtagent").config_file == [str(file)]


def test_a_directory_that_program_and_project_share_is_read_once(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    directory = tmp_path / ".rtagent" / "rtagent.conf.d"
    directory.mkdir(parents=True)
    pages = "node:0,size:2048,count:64"
    (directory / "pages.conf").write_text(f"[DEFAULT]\nreserved_huge_pages = {pages}\n")

    conf = load.parse(cfg.ConfigOpts(), [], "rtagent")

    assert conf.config_dir == [str(directory)]
    assert len(conf.reserved_huge_pages) == 1
