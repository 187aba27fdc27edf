"""What targets are, and how scores become answers."""
