"""Readers of what people bring, one file a layout; `manyhot.data` offers what is public."""
