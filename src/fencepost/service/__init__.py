"""The engine as a process that one can call: rules, rows and events over HTTP, durable on one machine.

service      Service, which routes and pages call: the seam
settings     where data is and how rows are read; limits
desk         the rules of the book; publishing makes versions of them, which the engine follows
rows         bodies as Arrow tables, of a size that arrow_sizes knows before; records are what the row log has of them
single       calls with one row, which stay dicts
joining      calls that are one batch for the Monitor, told apart again by time
segments     logs in files: checksummed blocks, torn ends, collecting; event_log is one for events
engine       the thread that logs, applies, stores and answers; monitoring is its Monitor
clock        which time has come for objects that say nothing; ticks
starting     the last save, then the replay; saves, keys; upkeep does what is due every so often
questions    why, why not, objects; trying replays rows with other rules; values are those that people ask with
statistics   totals, quantiles, samples; refusals know their HTTP status
web/         the FastAPI application: routes, tokens and sessions, limits
"""
