"""The scale of columns, learnt while the stream flows."""
