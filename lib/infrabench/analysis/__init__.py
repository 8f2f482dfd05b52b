"""From sessions to answers: the tidy table, results, tables, figures, the papers' numbers, and many sessions at once.

In: session folders. Out: tables, figures and sentences. It runs on a laptop: it never imports machines, systems or the
execution of trials.
"""
