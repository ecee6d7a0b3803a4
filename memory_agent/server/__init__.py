"""The HTTP service: REST, WebSocket and event streams over a `MemoryService`. Needs the extra `server`."""
