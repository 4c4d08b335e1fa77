"""The message broker with few rights for each user."""
