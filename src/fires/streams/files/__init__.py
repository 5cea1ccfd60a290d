"""Tables in files of many kinds, packed or not, and standard input."""

from fires.streams.files.stream import from_file, look_at

__all__ = ["from_file", "look_at"]
