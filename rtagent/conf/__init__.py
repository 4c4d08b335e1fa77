"""Options: one module per group, each with the frozen values that its options are read into."""
