"""What Tempest prints is read test by test, and two runs are compared."""

from __future__ import annotations

from devcloud.tempest_results import Results, differences, table

OUTPUT = """\
{0} tempest.api.compute.test_a.ATest.test_one [1.2s] ... ok
{1} tempest.api.compute.test_a.ATest.test_two [id-3,slow] [0.1s] ... FAILED
{1} tempest.api.compute.test_b.BTest.test_one ... SKIPPED: there is no network
{0} setUpClass (tempest.api.compute.test_c.CTest) ... SKIPPED: there are no volumes
{0} tearDownClass (tempest.api.compute.test_a.ATest) [0.0s] ... FAILED
Ran: 3 tests in 1.0 sec.
"""
PREFIX = "tempest.api.compute"
RUN = Results.of(OUTPUT.splitlines())


def test_each_test_and_each_class_without_tests_has_an_outcome():
    assert {
        f"{PREFIX}.test_a.ATest.test_one": "ok",
        f"{PREFIX}.test_a.ATest.test_two": "FAILED",
        f"{PREFIX}.test_b.BTest.test_one": "SKIPPED",
        f"{PREFIX}.test_c.CTest.setUpClass": "SKIPPED",
        f"{PREFIX}.test_a.ATest.tearDownClass": "FAILED",
    } == RUN
    assert RUN.count() == "1 ok, 2 skipped, 2 failed"


def test_newer_results_replace_those_of_the_same_tests_and_a_skipped_class():
    newer = Results(
        {f"{PREFIX}.test_c.CTest.test_one": "ok", f"{PREFIX}.test_a.ATest.test_two": "ok"}
    )
    assert RUN.updated(newer) == {
        f"{PREFIX}.test_a.ATest.test_one": "ok",
        f"{PREFIX}.test_a.ATest.test_two": "ok",
        f"{PREFIX}.test_b.BTest.test_one": "SKIPPED",
        f"{PREFIX}.test_c.CTest.test_one": "ok",
    }


def test_tests_that_ended_in_another_way_or_in_one_run_alone_are_named():
    other = Results(RUN | {f"{PREFIX}.test_a.ATest.test_two": "ok"})
    del other[f"{PREFIX}.test_b.BTest.test_one"]
    assert differences(RUN, other) == [
        f"{PREFIX}.test_a.ATest.test_two: stock FAILED, rtagent ok",
        f"{PREFIX}.test_b.BTest.test_one: stock SKIPPED, rtagent not run",
    ]


def test_the_table_has_the_numbers_of_each_class():
    rows = table(RUN, Results()).splitlines()
    assert rows[1:] == [
        "test_a.ATest,1,0,2,0,0,0",
        "test_b.BTest,0,1,0,0,0,0",
        "test_c.CTest,0,1,0,0,0,0",
    ]
