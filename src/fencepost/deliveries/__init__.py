"""Events on their way to a receiver: kept on disk until it has taken them.

spool           batches of events in files, and how far they were sent
hook            one attempt to post events, and what the answer means
sender          takes events from the spool and posts many at once, those of one object in their order
"""
