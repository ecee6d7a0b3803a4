"""uvicorn made robust: connections, bodies, limits, paths."""
