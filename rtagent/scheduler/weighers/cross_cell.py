"""CrossCellWeigher: all hosts are in one cell."""

from __future__ import annotations

from collections.abc import Sequence

from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.request import Request
from rtagent.scheduler.weigher import Weigher


class CrossCellWeigher(Weigher):
    """Makes no difference. It exists so that configurations that name it stay valid."""

    multiplier_key = "cross_cell_move_weight_multiplier"

    def weights(self, hosts: Sequence[HostState], request: Request) -> None:
        return None
