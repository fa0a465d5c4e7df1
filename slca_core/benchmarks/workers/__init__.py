"""Scripts for the benchmarks' own environments. They import nothing of this project, and lie apart so that no module of ours stands
before a benchmark's of the same name.
"""
