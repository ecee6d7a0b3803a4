"""The read path: terms, resident index, search, fuse, context, render."""
