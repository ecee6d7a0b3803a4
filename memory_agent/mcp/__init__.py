"""The memory as tools of the Model Context Protocol, by the official SDK (extra `mcp`).

`tools` is what the tools do, and what goes in and comes out, `serving` makes an MCP server of them for whoever asks;
`server` (streamable HTTP) and `stdio` are the ways to it.
"""
