"""Many sessions as one data set: a folder ``STUDY/SITE/SESSION`` of parquet, analysed in bounded memory.

`part`: one session of it; `folder`: all of them, brought up to date; `survey`: their analysis, one workload of one
study at one site at a time.
"""
