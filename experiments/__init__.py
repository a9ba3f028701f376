"""The papers' claims on real data: `python -m experiments --help`."""
