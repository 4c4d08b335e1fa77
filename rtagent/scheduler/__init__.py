"""The scheduler's side: hosts as the agents report them, filters, weighers and selection."""
