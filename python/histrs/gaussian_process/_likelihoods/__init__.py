"""What targets are, and how scores become predictions."""
