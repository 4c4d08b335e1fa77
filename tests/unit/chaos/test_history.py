"""Histories: what is written is read, also after a crash."""

import pytest

from tests.chaos.history import History, read


def test_entries_are_read_as_they_were_written(tmp_path):
    path = tmp_path / "run" / "history.jsonl"
    with History(path) as history:
        history.begin(2)
        call = history.invoke("caller-1", "host-1", "release_claim", {"claim_uuid": "c"}, "o")
        history.end("caller-1", call, "ok", reply={"state": "released"})
        history.fault("kill", "begin", "host-1", {})
        history.quiet()
        history.observed("claims", "host-1", [])
        assert history.count("invoke") == 1
    entries = list(read(path))
    assert entries.pop(0)["patience"] == 2
    assert [entry["type"] for entry in entries] == ["invoke", "ok", "fault", "quiet", "observed"]
    assert entries[0]["call"] == entries[1]["call"] == call
    assert entries[0]["operation_id"] == "o"
    assert [entry["t"] for entry in entries] == sorted(entry["t"] for entry in entries)


def test_a_torn_last_line_is_left_out_and_a_torn_line_before_it_is_an_error(tmp_path):
    path = tmp_path / "h"
    with History(path) as history:
        history.quiet()
        history.quiet()
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    assert len(list(read(path))) == 1
    path.write_bytes(b"{torn\n" + whole)
    with pytest.raises(ValueError, match="line 1"):
        list(read(path))


def test_a_field_that_is_too_long_is_replaced_and_the_others_are_kept(tmp_path):
    with History(tmp_path / "h", max_entry=1000) as history:
        history.observed("claims", "host-1", "x" * 2000)
    (entry,) = read(tmp_path / "h")
    assert entry["document"] == {"oversize": 2003}
    assert entry["what"] == "claims"
