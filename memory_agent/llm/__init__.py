"""Common parts of every use of a language model: JSON out of prose, refusals, redaction, summaries."""
