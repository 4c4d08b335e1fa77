"""tools/chaos [--minutes N] [--seed S] [--keep DIR]

Exit code 0: no violation; 1: violations, which are printed; 2: the run was interrupted or failed,
for example because a fault could not be injected or ended.
"""

import logging
import shutil
import sys
import tempfile
import traceback
from pathlib import Path

from tests.chaos.options import parser
from tests.chaos.options import plan as planned
from tests.chaos.run import FAILED, NO_VIOLATION, interrupt_at_sigterm, make_trial


def main(arguments: list[str] | None = None) -> int:
    """Make a run as the command line says; print its violations."""
    options = parser().parse_args(arguments)
    logging.disable()  # clients log every lost connection
    interrupt_at_sigterm()
    plan = planned(options)
    directory = options.keep or Path(tempfile.mkdtemp(prefix="chaos-"))
    keep = options.keep is not None
    try:
        trial = make_trial(plan, directory)
        print(trial)
        if trial.exit_code != NO_VIOLATION:
            keep = True
            print(f"history and logs: {directory}\nagain: {plan.command}")
        return trial.exit_code
    except KeyboardInterrupt:
        print(f"interrupted; see {directory}" if keep else "interrupted", file=sys.stderr)
        return FAILED
    except Exception:
        keep = True
        traceback.print_exc()
        print(f"the run failed; see {directory}", file=sys.stderr)
        return FAILED
    finally:
        if not keep:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
