"""The worker that runs its handlers as tasks of asyncio. Its parts have the names of those in `threads`."""
