"""What is learned of a kernel from rows and targets: evidence, rows left out, and searches."""
