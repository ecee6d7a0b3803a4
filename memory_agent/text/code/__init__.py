"""Code in texts: found, line by line, and told by its language."""
