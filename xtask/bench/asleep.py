"""Sleeps: profiling it costs only the runs that find nothing to sample.

Arguments: SECONDS
"""

import time

from work_units import counts, seconds

counts[0] = 1
time.sleep(seconds())
