"""What is asked of language models in common: JSON out of prose, redaction, summaries."""
