"""Ends with much memory to give back."""

import os

memory = b"x" * (1 << 29)
os._exit(0)
