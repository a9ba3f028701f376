"""Search by what is in a sample and what is not, ranked by probability."""
