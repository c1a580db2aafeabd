"""Bounds what a certificate holds and what a check of it costs: each number with its unit and reason."""

from typing import Final

MAX_SAMPLES: Final = 16
"""Samples: enough to touch every path of a model, few enough to run at each install."""

MAX_CERTIFICATE_BYTES: Final = 65_536
"""Bytes of a certificate: it travels with every program; the native reader has the same cap."""

MAX_RANK: Final = 8
"""Dimensions of a tensor: as many as a program's have."""

MAX_LABEL_CHARACTERS: Final = 255
"""Characters of an expected label: as long as a program's own.  Numpy gives each as much room as the longest."""

MAX_INPUT_BYTES: Final = 128 << 20
"""Bytes of the inputs of all samples together: sixteen color pictures of 800 x 800 in float32.  A rule of a few bytes
stands for as many as it likes, so they are counted before any is made."""

MAX_CHECK_S: Final = 60.0
"""Seconds that running all samples may take: sixteen runs of nearly four seconds each.  A device holds its slots' lock
meanwhile."""

PICKED: Final = 128
"""Elements of an output that are kept if it has more; the digest covers every one."""
