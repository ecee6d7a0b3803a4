"""Natural language: words, questions, times, code, quotes. Pure; nothing here is asynchronous."""
