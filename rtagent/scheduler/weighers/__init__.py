"""The weighers: each one prefers hosts for one reason. They have Nova's names."""
