"""Tables on disk: CSV, TSV, JSON, Parquet, NumPy archives and data frames; without torch."""
