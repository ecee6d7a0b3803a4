"""Natural language: words, questions, times, code, moments. Pure; nothing here is asynchronous."""
