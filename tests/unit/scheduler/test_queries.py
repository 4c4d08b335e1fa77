"""JsonFilter: the hint ``query``, a condition on a host in JSON."""

import json

import pytest

from rtagent.errors import InvalidRequest
from rtagent.scheduler.filters.json_query import MAX_DEPTH, MAX_VALUES, JsonFilter, parse_query
from tests.support.host_states import host_state
from tests.support.scheduling import passes, scheduler_request

HOST = host_state(
    "cn1",
    free_ram_mb=1024,
    free_disk_mb=200 * 1024,
    vcpus_total=8,
    hypervisor_type="QEMU",
    stats={"io_workload": 2},
    cpu_info={"arch": "x86_64", "topology": {"cores": 4}},
)
TRUE, FALSE = ["=", "$host", "cn1"], ["=", "$host", "cn2"]


@pytest.mark.parametrize(
    ("query", "satisfied"),
    [
        (["=", "$free_ram_mb", 1024], True),
        (["=", "$free_ram_mb", 1024, 1025], False),
        ([">=", "$free_ram_mb", 1024], True),
        ([">=", "$free_ram_mb", 1025], False),
        (["<", 2, "$vcpus_total", 9], True),
        (["<", 2, "$vcpus_total", 1], False),
        ([">", "$vcpus_total", 7.5], True),
        (["in", "$host", "cn0", "cn1"], True),
        (["in", "$host", "cn0", "cn2"], False),
        (["=", "$cpu_info.topology.cores", 4], True),
        (["=", "$stats.missing", "$stats.also_missing"], False),
        (["=", "$service.disabled", False], True),
        (["=", "$hypervisor_hostname", "cn1.example"], True),
        (["and", TRUE, TRUE], True),
        (["and", TRUE, FALSE], False),
        (["or", FALSE, TRUE], True),
        (["or", FALSE, FALSE], False),
        (["not", FALSE], True),
        (["not", TRUE], False),
        (["not", TRUE, FALSE], True),
        (["not", TRUE, TRUE], False),
        (["not", "$service.disabled"], True),
        (["not", ["or", FALSE, ["not", TRUE, TRUE]]], True),
        (["and", True, TRUE], True),
        (["and", False, TRUE], False),
        (["in", *range(MAX_VALUES - 1)], False),
    ],
)
def test_a_query_is_judged_on_the_fields_of_the_host(query, satisfied):
    assert parse_query(json.dumps(query))(HOST) is satisfied


@pytest.mark.parametrize(
    "query", [["<", "$host", 1], [">=", "$free_ram_mb", "1024"], ["<", "$cpu_info", "$stats"]]
)
def test_a_comparison_of_values_without_an_order_is_false_and_others_count(query):
    assert parse_query(json.dumps(query))(HOST) is False
    assert parse_query(json.dumps(["or", query, TRUE]))(HOST) is True
    assert parse_query(json.dumps(["not", query]))(HOST) is True


@pytest.mark.parametrize(
    ("query", "satisfied"),
    [
        (["<=", "$stats.io_workload", "8"], True),
        (["<=", "$stats.io_workload", "10"], False),  # "2" is behind "10"
        (["=", "$stats.io_workload", "2"], True),
        ([">", "8", "$stats.io_workload"], True),
        (["in", "$stats.io_workload", "0", "2"], True),
        (["<=", "$stats.missing", "8"], False),
        (["<=", "$stats.io_workload", 10], True),
    ],
)
def test_a_statistic_is_a_text_if_it_is_compared_with_one(query, satisfied):
    assert parse_query(json.dumps(query))(HOST) is satisfied


def _nested(levels):
    query: list = TRUE
    for _ in range(levels - 1):
        query = ["not", query]
    return query


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        ("", "", "JSON"),
        ("nonsense", "", "JSON"),
        ('["=", NaN, 1]', "", "JSON"),
        ("[]", "", "list"),
        ('"$host"', "", "list"),
        ('["==", "$host", "cn1"]', "[0]", "must be one of"),
        ('[["="], 1]', "[0]", "must be one of"),
        ('["="]', "", "2 or more"),
        ('["=", 1]', "", "2 or more"),
        ('["not"]', "", "1 or more"),
        ('["not", []]', "[1]", "list"),
        ('["and", "text", ["not", true]]', "[1]", "list"),
        ('["or", ["=", 1, 1], ["?", 1, 1]]', "[2][0]", "must be one of"),
        ('["=", ["=", 1, 1], 1]', "[1]", "text, a number"),
        ('["=", null, 1]', "[1]", "text, a number"),
        ('["=", "$free_ram", 1]', "[1]", "$free_ram_mb"),
        ('["=", "$", 1]', "[1]", "no field"),
        ('["=", "$replica", 1]', "[1]", "no field"),
        ('["=", "$__class__", 1]', "[1]", "no field"),
        (json.dumps(_nested(MAX_DEPTH + 1)), "[1]" * MAX_DEPTH, "levels"),
        ("[" * 60000, "", "JSON"),
        (json.dumps(["in", *range(MAX_VALUES)]), "", "values"),
    ],
)
def test_a_malformed_query_is_an_error_of_the_request(text, path, message):
    with pytest.raises(InvalidRequest) as caught:
        parse_query(text)
    (error,) = caught.value.kwargs["errors"]
    assert error["path"] == f"$.request_spec.scheduler_hints.query{path}"
    assert message in error["message"]


def test_a_request_has_one_query_or_none():
    assert passes(JsonFilter, HOST, scheduler_request(hints={"query": None}))
    assert not passes(JsonFilter, HOST, scheduler_request(hints={"query": json.dumps(FALSE)}))
    with pytest.raises(InvalidRequest, match="one query"):
        passes(JsonFilter, HOST, scheduler_request(hints={"query": ["[1]", "[2]"]}))
