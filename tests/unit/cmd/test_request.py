"""A build's request from the command line."""

import argparse
import json

import pytest

from rtagent.cmd import request
from rtagent.errors import InvalidRequest


def parse(*argv: str) -> dict:
    parser = argparse.ArgumentParser(exit_on_error=False)
    request.add_arguments(parser)
    return request.arguments(parser.parse_args(argv))


def test_options_become_the_documents_fields():
    assert parse(
        *[
            "--instance",
            "u",
            "--name",
            "vm",
            "--project",
            "p",
            "--user",
            "me",
            "--vcpus",
            "2",
            "--memory",
            "1024",
        ],
        *[
            "--root-gb",
            "10",
            "--ephemeral-gb",
            "5",
            "--swap",
            "512",
            "--flavor-name",
            "m1",
            "--volume-backed",
        ],
        *[
            "--property",
            "hw:cpu_policy=shared",
            "--property",
            "a=b=c",
            "--image-property",
            "x=y",
        ],
        *["--limit", "vcpu=8", "--limit", "memory_mb=4096", "--tag", "mine"],
    ) == {
        "instance": {
            "uuid": "u",
            "display_name": "vm",
            "project_id": "p",
            "user_id": "me",
            "is_volume_backed": True,
            "flavor": {
                "vcpus": 2,
                "memory_mb": 1024,
                "root_gb": 10,
                "ephemeral_gb": 5,
                "swap": 512,
                "name": "m1",
                "extra_specs": {"hw:cpu_policy": "shared", "a": "b=c"},
            },
            "image": {"properties": {"x": "y"}},
        },
        "limits": {"vcpu": 8, "memory_mb": 4096},
        "tag": "mine",
    }


def test_what_is_not_said_is_not_sent():
    assert parse("--instance", "u", "--vcpus", "1", "--memory", "64") == {
        "instance": {"uuid": "u", "flavor": {"vcpus": 1, "memory_mb": 64}}
    }


def test_zero_is_sent():
    assert parse("--root-gb", "0")["instance"]["flavor"] == {"root_gb": 0}


def test_a_file_is_sent_as_it_is(tmp_path):
    document = {"instance": {"uuid": "u", "unknown": [1]}, "limits": {}}
    file = tmp_path / "request.json"
    file.write_text(json.dumps(document))
    assert parse("--request", str(file)) == document


@pytest.mark.parametrize("also", [["--vcpus", "1"], ["--tag", "x"], ["--volume-backed"]])
def test_a_file_stands_alone(also):
    with pytest.raises(InvalidRequest, match="--request: it stands alone"):
        parse("--request", "file", *also)


@pytest.mark.parametrize("text", ["{", "[1]", "3", ""])
def test_a_file_that_is_no_object_is_told(tmp_path, text):
    file = tmp_path / "request.json"
    file.write_text(text)
    with pytest.raises(InvalidRequest, match=str(file)):
        parse("--request", str(file))


def test_a_file_that_is_missing_is_told(tmp_path):
    with pytest.raises(InvalidRequest, match="No such file"):
        parse("--request", str(tmp_path / "missing"))


@pytest.mark.parametrize("text", ["vcpu", "=1", "vcpu=", "vcpu=x", "vcpu=-1", "vcpu=1.5"])
def test_a_limit_is_a_key_and_a_number(text):
    with pytest.raises(argparse.ArgumentError):
        parse("--limit", text)
