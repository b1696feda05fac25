"""Sleeps: whoever profiles it pays only for what it looks at in vain.

Arguments: SECONDS
"""

import time

from work_units import counts, seconds

counts[0] = 1
time.sleep(seconds())
