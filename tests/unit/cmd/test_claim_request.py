"""The request of a build claim from the command line."""

import argparse
import json

import pytest

from rtagent.cmd import claim_request
from rtagent.cmd.exit_codes import Exit
from rtagent.errors import InvalidRequest
from tests.functional.cli.shell import run


def parse(*argv: str) -> dict:
    parser = argparse.ArgumentParser(exit_on_error=False)
    claim_request.add_arguments(parser)
    return claim_request.arguments(parser.parse_args(argv))


OPTIONS = """
    --instance u --name vm --project p --user me --vcpus 2 --memory 1024 --root-gb 10
    --ephemeral-gb 5 --swap 512 --flavor-name m1 --volume-backed --property hw:cpu_policy=shared
    --property a=b=c --image-property x=y --limit vcpu=8 --limit memory_mb=4096 --tag own
    --allocation rp=a,VCPU=2,MEMORY_MB=64 --allocation rp=b,VGPU=1
    --provider-mapping gpu=a,b --provider-mapping nic=c
"""


def test_options_set_the_fields_of_the_document():
    disks = {"root_gb": 10, "ephemeral_gb": 5, "swap": 512}
    specs = {"hw:cpu_policy": "shared", "a": "b=c"}
    flavor = {"vcpus": 2, "memory_mb": 1024, **disks, "name": "m1", "extra_specs": specs}
    owner = {"display_name": "vm", "project_id": "p", "user_id": "me"}
    image = {"is_volume_backed": True, "image": {"properties": {"x": "y"}}}
    parts = {"a": {"VCPU": 2, "MEMORY_MB": 64}, "b": {"VGPU": 1}}
    assert parse(*OPTIONS.split()) == {
        "instance": {"uuid": "u", **owner, "flavor": flavor, **image},
        "limits": {"vcpu": 8, "memory_mb": 4096},
        "allocations": {name: {"resources": part} for name, part in parts.items()},
        "provider_mapping": {"gpu": ["a", "b"], "nic": ["c"]},
        "tag": "own",
    }


@pytest.mark.parametrize(
    ("option", "text"),
    [
        *(("--limit", text) for text in ("vcpu", "=1", "vcpu=", "vcpu=x", "vcpu=-1", "vcpu=1.5")),
        *(("--allocation", text) for text in ("a,VCPU=1", "rp=a", "rp=a,VCPU", "rp=a,VCPU=x")),
        *(("--allocation", text) for text in ("rp=a,VCPU=1,VCPU=2", "provider=a,V=1")),
    ],
)
def test_limits_and_allocations_are_names_and_numbers(option, text):
    with pytest.raises(argparse.ArgumentError):
        parse(option, text)


def test_options_that_are_not_given_are_not_sent_and_a_zero_is():
    assert parse("--instance", "u", "--vcpus", "1", "--root-gb", "0") == {
        "instance": {"uuid": "u", "flavor": {"vcpus": 1, "root_gb": 0}}
    }


def test_a_file_is_sent_unchanged(tmp_path):
    document = {"instance": {"uuid": "u", "unknown": [1]}, "limits": {}}
    file = tmp_path / "request.json"
    file.write_text(json.dumps(document))
    assert parse("--request", str(file)) == document


@pytest.mark.parametrize("text", ["{", "[1]", "3", "", "[" * 10**5, None])
def test_a_file_that_has_no_json_object_is_refused(tmp_path, text):
    file = tmp_path / "request.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(InvalidRequest, match="No such file" if text is None else str(file)):
        parse("--request", str(file))


@pytest.mark.parametrize("also", [["--vcpus", "1"], ["--tag", "x"], ["--volume-backed"]])
def test_a_file_cannot_be_combined_with_options(also):
    with pytest.raises(InvalidRequest, match="--request: cannot be combined with options"):
        parse("--request", "file", *also)


@pytest.mark.parametrize(
    "argv",
    [
        ["--property", "hw:cpu_policy=shared", "--property", "hw:cpu_policy=dedicated"],
        ["--image-property", "hw_cpu_policy=shared", "--image-property", "hw_cpu_policy=shared"],
        ["--limit", "vcpu=1", "--limit", "vcpu=2"],
        ["--allocation", "rp=a,VCPU=1", "--allocation", "rp=a,VGPU=1"],
        ["--provider-mapping", "gpu=a", "--provider-mapping", "gpu=b"],
    ],
)
def test_a_repeated_key_is_refused(argv):
    with pytest.raises(InvalidRequest, match=rf"{argv[0]} \w+.*: is given more than once"):
        parse(*argv)


def test_the_operation_id_is_given_or_that_of_the_file_or_new():
    assert claim_request.identify({}, None) != claim_request.identify({}, None)
    assert claim_request.identify({"operation_id": "own"}, None) == "own"
    document: dict = {}
    assert claim_request.identify(document, "given") == "given"
    assert document == {"operation_id": "given"}
    assert claim_request.identify({"operation_id": "own"}, "own") == "own"
    with pytest.raises(InvalidRequest, match="--operation-id: differs from that of the file"):
        claim_request.identify({"operation_id": "own"}, "given")


def test_a_file_is_validated_before_the_call(tmp_path):
    file = tmp_path / "request.json"
    file.write_text(json.dumps({"method": "x", "limits": {"vcpu": "two"}}))

    outcome = run("claim", "create", "--request", str(file))

    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (Exit.USAGE, "", 1)
    for error in (
        "$.instance: is required",
        "$.limits.vcpu: must be an integer or null, not a string",
        "$.method: is not a field here",
    ):
        assert error in outcome.err


def test_errors_name_the_options():
    limits = ["--limit", "disks=1", "--limit", f"vcpu={2**31}"]
    limits += ["--allocation", "rp=x,VCPU=0", "--provider-mapping", "gpu=y"]
    outcome = run("claim", "test", "--instance", "u", "--vcpus", "-1", *limits)

    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (Exit.USAGE, "", 1)
    for error in (
        "--instance: must be a uuid",
        "--memory: is required",
        "--vcpus: must be",
        "--limit disks: is not a field here",
        "--limit vcpu: must be",
        "--allocation",
        "--provider-mapping gpu[0]: must be a uuid",
    ):
        assert error in outcome.err


def test_a_request_may_begin_with_a_byte_order_mark(tmp_path):
    file = tmp_path / "request.json"
    file.write_bytes(b'\xef\xbb\xbf{"a": "\xc3\xbc"}\r\n')
    assert claim_request.read_document(str(file), "instance_claim") == {"a": "\u00fc"}


def test_a_request_that_is_missing_is_named_once(tmp_path):
    file = str(tmp_path / "request.json")
    with pytest.raises(InvalidRequest, match=f"{file}: cannot be read: No such file or directory$"):
        claim_request.read_document(file, "instance_claim")
