"""Import of what other programs kept: one reader per format, pure, over streamed files, and one runner."""
