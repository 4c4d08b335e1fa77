"""Any provider file is either read or refused, with the file and a rule."""

import tempfile
from pathlib import Path
from typing import Any

import msgspec
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from rtagent.conf.provider_files import read_files
from rtagent.placement.offers import resolve
from rtagent.placement.provider import InventoryRecord, Provider
from rtagent.placement.tree import build
from tests.support.hosts import NODE, host
from tests.support.provider_files import CLASS, TRAIT, document

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
    | st.dates()
    | st.binary(max_size=4)
    | st.sampled_from(["1.0", "2", "$COMPUTE_NODE", CLASS, TRAIT, "VCPU", NODE.uuid, "hv1"])
)
KEYS = st.sampled_from(
    [
        *("meta", "schema_version", "providers", "identification", "uuid", "name", "inventories"),
        *("traits", "additional", "total", "reserved", "__source_file", CLASS, "VCPU", ""),
    ]
) | st.text(max_size=6)
ANYTHING = st.recursive(
    SCALARS,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(KEYS, below, max_size=4),
    max_leaves=12,
)


def mostly(valid: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Values of which most are valid."""
    return st.one_of(valid, valid, valid, ANYTHING)


QUANTITY = st.integers(min_value=-1, max_value=12)
INVENTORY = st.fixed_dictionaries(
    {"total": mostly(st.integers(1, 30))},
    optional={
        **dict.fromkeys(("reserved", "min_unit", "max_unit", "step_size"), mostly(QUANTITY)),
        "allocation_ratio": mostly(st.floats(0, 5)),
    },
)
NAMES = st.sampled_from([CLASS, "CUSTOM_OTHER", "CUSTOM_THIRD", "VCPU"])
IDENTIFICATION = st.sampled_from(
    [
        {"uuid": "$COMPUTE_NODE"},
        {"uuid": NODE.uuid},
        {"name": NODE.hypervisor_hostname},
        {"name": f"{NODE.hypervisor_hostname}_0000:81:00.0"},
        {"name": "another"},
    ]
)
ITEM = st.fixed_dictionaries(
    {"identification": mostly(IDENTIFICATION)},
    optional={
        "inventories": mostly(
            st.fixed_dictionaries(
                {
                    "additional": mostly(
                        st.lists(st.dictionaries(NAMES, mostly(INVENTORY), max_size=2), max_size=2)
                    )
                }
            )
        ),
        "traits": mostly(st.fixed_dictionaries({"additional": st.lists(NAMES, max_size=2)})),
    },
)
DOCUMENTS = ANYTHING | st.lists(mostly(ITEM), max_size=4).map(lambda items: document(*items))


def judged(content: bytes) -> None:
    """Read a file with this content. It adds something valid, or has mistakes with a place."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "a.yaml"
        file.write_bytes(content)
        files, mistakes = read_files(directory)
    for error in mistakes:
        assert error.message.startswith(f"{file}: ")
        assert error.message.isprintable() and len(error.message) < 1000
        assert error.kwargs["rule"]
    offers = resolve(files, host())
    for error in offers.mistakes:
        assert error.message.startswith(f"{file}: $.providers[")
    state = host()
    tree = build(msgspec.structs.replace(state, policy=offers.added_to(state.policy)), False, True)
    assert tree is not None
    for provider in tree.providers:
        check(provider)


def check(provider: Provider) -> None:
    """Check what Placement requires."""
    for record in provider.inventories.values():
        assert isinstance(record, InventoryRecord)
        assert 1 <= record.total < 2**31 and 0 <= record.reserved <= record.total
        assert 1 <= record.min_unit <= record.max_unit < 2**31 and record.step_size >= 1
        assert 0 < record.allocation_ratio <= 1_000_000


@given(DOCUMENTS)
def test_any_document_is_read_or_refused(content):
    judged(yaml.safe_dump(content).encode())


@given(st.binary(max_size=60) | st.text(alphabet="-:{}[]&*!?|>'\"%@,#\t\n ab01.<~", max_size=60))
@example("? !!set {a}\n: 1")
@example("a: !!omap [b]")
@example("a: !!pairs {b: 1}")
@example("a: !!int ''")
@example("a: !!float _")
@example("a: !!binary '\u00e9'")
@example("<<: 1")
@example("&a {? *a : 1}")
@example("=: 1")
@example("a: 1:" + "0:" * 300 + "0.0")
@example("%YAML 2.0\n---\na")
def test_any_text_is_read_or_refused(text):
    judged(text if isinstance(text, bytes) else text.encode())
