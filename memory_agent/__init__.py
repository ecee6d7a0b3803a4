"""Memory for LLM agents that you host yourself."""
