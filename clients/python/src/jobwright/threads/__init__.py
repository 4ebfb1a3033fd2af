"""The worker that runs its handlers in threads."""
