"""The unit tests of the healing of allocations, with a real Placement."""

from tests.unit.placement import test_healing

globals().update(
    {
        key: value
        for key, value in vars(test_healing).items()
        if key.startswith("test_") or key in ("node", "gpu_node")
    }
)
