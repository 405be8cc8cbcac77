"""What writes the weights: one module per weight, run as `python -m training.<name>`."""
