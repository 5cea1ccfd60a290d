"""The paper's experiments, run again: settings, cells, tables, figures."""
