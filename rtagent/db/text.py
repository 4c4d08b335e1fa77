"""Values as the text of a column."""

from __future__ import annotations

import msgspec

_encode = msgspec.json.Encoder().encode


def text(value: object) -> str:
    """As JSON; sets and mappings are sorted."""
    # Two steps: the encoder alone sorts no mapping whose keys are integers.
    return _encode(msgspec.to_builtins(value, str_keys=True, order="deterministic")).decode()
