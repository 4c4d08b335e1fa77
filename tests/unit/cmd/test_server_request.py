"""The options of ``rtagent server build`` and ``resize``."""

import argparse

import pytest

from rtagent.cmd import server_request
from rtagent.errors import InvalidRequest
from rtagent.model.request import Flavor


def parsed(*argv):
    parser = argparse.ArgumentParser()
    server_request.add_arguments(parser)
    return parser.parse_args(argv)


def test_options_become_a_request():
    spec = server_request.request(
        parsed(
            *("--vcpus", "2", "--memory", "512", "--flavor-name", "m1"),
            *("--property", "hw:cpu_policy=dedicated", "--image-property", "hw_machine_type=q35"),
            *("--hint", "different_host=a", "--hint", "different_host=b", "--hint", "group=g"),
            *("--host", "cn1", "--project", "p", "--availability-zone", "az", "--volume-backed"),
        )
    )
    assert (spec.flavor.vcpus, spec.flavor.memory_mb, spec.flavor.name) == (2, 512, "m1")
    assert spec.flavor.extra_specs == {"hw:cpu_policy": "dedicated"}
    assert spec.image.properties == {"hw_machine_type": "q35"}
    assert (spec.hint("different_host"), spec.hint("group")) == (("a", "b"), ("g",))
    assert (spec.force_hosts, spec.project_id, spec.is_bfv) == (("cn1",), "p", True)
    assert spec.availability_zone == "az"


@pytest.mark.parametrize(
    ("argv", "option"),
    [
        (("--vcpus", "0", "--memory", "1"), "--vcpus"),
        (("--vcpus", "1", "--memory", "-1"), "--memory"),
        (("--vcpus", "1", "--memory", "1", "--root-gb", "-1"), "--root-gb"),
        (("--vcpus", "1"), "--memory is required"),
        (("--vcpus", "1", "--memory", "1", "--hint", f"{'k' * 256}=v"), "--hint"),
        (("--vcpus", "1", "--memory", "1", "--host", "h" * 256), "--host must"),
    ],
)
def test_invalid_options_are_named(argv, option):
    with pytest.raises(InvalidRequest) as refused:
        server_request.request(parsed(*argv))
    [error] = refused.value.kwargs["errors"]
    assert f"{error['path']} {error['message']}".startswith(option)


def test_a_resize_keeps_what_is_not_named():
    old = Flavor(vcpus=1, memory_mb=512, root_gb=3, extra_specs={"a": "1", "b": "2"})
    new = server_request.new_flavor(parsed("--memory", "1024", "--property", "b=3"), old)
    assert new == Flavor(vcpus=1, memory_mb=1024, root_gb=3, extra_specs={"a": "1", "b": "3"})
    with pytest.raises(InvalidRequest, match="--vcpus"):
        server_request.new_flavor(parsed("--vcpus", "0"), old)


def test_a_domain_document_that_cannot_be_read_is_named(tmp_path):
    args = argparse.Namespace(domain=str(tmp_path / "none.xml"))
    with pytest.raises(InvalidRequest, match="--domain: cannot be read"):
        server_request.domain_document(args)
    (tmp_path / "d.xml").write_text("<network/>")
    args.domain = str(tmp_path / "d.xml")
    with pytest.raises(InvalidRequest, match="the root element is <network>, not <domain>"):
        server_request.domain_document(args)
    (tmp_path / "d.xml").write_text("<domain/>")
    assert server_request.domain_document(args) == "<domain/>"
