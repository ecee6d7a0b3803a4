"""Import of what other programs kept: a pure reader per format, over streamed files, and one runner."""
