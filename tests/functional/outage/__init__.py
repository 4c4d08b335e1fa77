"""What the agent needs is away for a while, under a stream of claims."""
