"""What time and people do to memory: forget and rebuild."""
