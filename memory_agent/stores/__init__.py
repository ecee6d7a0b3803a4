"""One adapter per server or file format. Driver errors are translated here, once."""
