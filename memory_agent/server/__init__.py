"""The HTTP service: REST and event streams over a `MemoryService`. Needs the extra `server`."""
