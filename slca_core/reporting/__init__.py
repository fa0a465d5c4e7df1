"""From per-item results and training metrics to the report: tables, figures, one page in Markdown, HTML and JSON."""
