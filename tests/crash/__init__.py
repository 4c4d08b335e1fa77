"""The agent, killed: at every named boundary of its commits, and at any moment."""
