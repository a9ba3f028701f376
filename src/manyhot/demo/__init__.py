"""The demonstration: from pictures on disk to decisions, in a minute and without a download."""

from manyhot.demo.running import run_demo

__all__ = ["run_demo"]
