"""Tables in files: CSV, TSV and Parquet, packed or not, and standard input."""

from fires.streams.files.stream import FileStream, from_file

__all__ = ["FileStream", "from_file"]
