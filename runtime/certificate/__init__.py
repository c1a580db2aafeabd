"""Makes a program's parity certificate at export, and checks it at publishing and on devices at installation.

samples.py    what inputs may be
document.py   its bytes: canonical JSON
limits.py     what that may cost
check.py      run, compare, tell
"""

from alcove.runtime.certificate.check import (
    CertificateReport,
    certificate_bytes,
    check_certificate,
    compare,
    embed_certificate,
    output_digest,
    relative_difference,
    run_sample,
)
from alcove.runtime.certificate.document import TOLERANCES
from alcove.runtime.certificate.limits import MAX_CERTIFICATE_BYTES, MAX_CHECK_S, MAX_INPUT_BYTES, MAX_SAMPLES
from alcove.runtime.certificate.samples import DTYPES as SAMPLE_DTYPES
from alcove.runtime.certificate.samples import LICENCES, Input, Procedural, Sample

__all__ = [
    "LICENCES",
    "MAX_CERTIFICATE_BYTES",
    "MAX_CHECK_S",
    "MAX_INPUT_BYTES",
    "MAX_SAMPLES",
    "SAMPLE_DTYPES",
    "TOLERANCES",
    "CertificateReport",
    "Input",
    "Procedural",
    "Sample",
    "certificate_bytes",
    "check_certificate",
    "compare",
    "embed_certificate",
    "output_digest",
    "relative_difference",
    "run_sample",
]
