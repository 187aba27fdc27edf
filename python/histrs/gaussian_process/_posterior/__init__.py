"""What predictions are made of: means, variances, tables and functions of features."""
