"""Histories: what is written is read, by many threads, and after a crash."""

from __future__ import annotations

import threading

import pytest

from tests.chaos.history import History, read


def test_entries_are_read_as_they_were_written(tmp_path):
    path = tmp_path / "run" / "history.jsonl"
    with History(path) as history:
        history.begin(2)
        call = history.invoke("caller-1", "host-1", "release_claim", {"claim_uuid": "c"}, "o")
        history.ok("caller-1", call, {"state": "released"})
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


def test_a_file_has_the_history_of_one_run(tmp_path):
    with History(tmp_path / "h") as history:
        history.quiet()
    with pytest.raises(FileExistsError, match="h"):
        History(tmp_path / "h")
    assert len(list(read(tmp_path / "h"))) == 1


def test_an_observation_of_an_unknown_thing_is_refused(tmp_path):
    with History(tmp_path / "h") as history, pytest.raises(ValueError, match="'nodes'; it must be"):
        history.observed("nodes", "host-1", [])


def test_threads_do_not_mix_their_lines_and_calls(tmp_path):
    history = History(tmp_path / "h")

    def write(process: str) -> None:
        for _ in range(200):
            call = history.invoke(process, "host-1", "ping", {"text": "x" * 5000})
            history.fail(process, call, {"type": "TrackerBusy"})

    threads = [threading.Thread(target=write, args=(f"caller-{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    history.close()
    entries = list(read(tmp_path / "h"))
    calls = [entry["call"] for entry in entries if entry["type"] == "invoke"]
    assert len(entries) == 1600
    assert len(set(calls)) == 800


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
