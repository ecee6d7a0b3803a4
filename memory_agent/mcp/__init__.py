"""The memory as tools of the Model Context Protocol, by the official SDK (extra `mcp`).

`tools` is what the tools do, and what goes in and comes out, `serving` makes an MCP server of them for whoever asks;
on standard input and output too; `server` is over streamable HTTP.
"""
