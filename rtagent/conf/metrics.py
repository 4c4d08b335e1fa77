"""[metrics]: how MetricsWeigher and MetricsFilter use the measurements of hosts."""

from __future__ import annotations

from collections.abc import Mapping

from oslo_config import cfg

from rtagent.conf.types import FiniteFloat, Ratios
from rtagent.model.base import Value
from rtagent.scheduler.options import MetricsOptions

GROUP = "metrics"

OPTS = [
    cfg.Opt(
        "weight_multiplier",
        type=FiniteFloat(),
        default=1.0,
        mutable=True,
        help="""
The multiplier of MetricsWeigher's normalised weights. Negative: hosts with a smaller sum are
preferred. 0: metrics do not count. The key ``metrics_weight_multiplier`` in the metadata of a
host's aggregates overrides it.
""",
    ),
    cfg.Opt(
        "weight_setting",
        type=Ratios(),
        default={},
        mutable=True,
        help="""
The metrics that count, each with its ratio: ``NAME=RATIO``, separated by commas. With
``name1=1.0, name2=-1.3`` a host's weight is the value of ``name1`` minus 1.3 times the value of
``name2``. Empty: metrics do not count.
""",
    ),
    cfg.BoolOpt(
        "required",
        default=True,
        mutable=True,
        help="""
Whether a host must have all metrics of ``weight_setting``. True: a host that lacks one comes after
all others; enable MetricsFilter to refuse it. False: its weight is ``weight_of_unavailable``.
""",
    ),
    cfg.Opt(
        "weight_of_unavailable",
        type=FiniteFloat(),
        default=-10000.0,
        mutable=True,
        help="""
The weight, before it is normalised, of a host that lacks a metric whose ratio is not 0, if
``required`` is False.
""",
    ),
]


class Metrics(Value, frozen=True, kw_only=True):
    """:ivar weight_setting: the ratio of each metric, by name."""

    weight_multiplier: float
    weight_setting: Mapping[str, float]
    required: bool
    weight_of_unavailable: float

    @property
    def options(self) -> MetricsOptions:
        """The options as the scheduler's value."""
        return MetricsOptions(
            weight_multiplier=self.weight_multiplier,
            weight_setting=self.weight_setting,
            required=self.required,
            weight_of_unavailable=self.weight_of_unavailable,
        )
