"""From per-item results and training metrics to the report: tables and figures in Markdown, HTML, LaTeX and JSON."""
