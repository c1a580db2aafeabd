"""Lets the processes that tests start collect garbage seldom while they import: what modules hold is never garbage.

Python runs this file at each start. A tenth of the time of a server's start goes into collections that find nothing.
"""

import gc

gc.set_threshold(50_000, 20, 20)
