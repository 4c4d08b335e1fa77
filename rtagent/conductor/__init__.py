"""A conductor: builds, moves and deletes servers by calling the scheduler and the agents."""
