"""What the agent costs, as ratios against floors that are taken in the same run."""
