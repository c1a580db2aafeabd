"""Defines the bounds that hold on a device: each number with its unit and the reason for it."""

from typing import Final

CONNECT_TIMEOUT_S: Final = 10.0
"""Longest wait for a connection; a phone in a tunnel gives up and tries at the next sync."""

READ_TIMEOUT_S: Final = 30.0
"""Longest silence of a server within an answer, and longest wait for the next piece of its body."""

GRACE_S: Final = 30.0
"""How long an answer may take before its pace is judged."""

MIN_BYTES_PER_S: Final = 1_024
"""Slowest pace of an answer after the grace, a quarter of what GPRS gives: below it a server holds the device up."""

HEAD_TIMEOUT_S: Final = 60.0
"""Longest wait for the whole head of an answer, connection included: as long as its body may be silent, twice."""

MAX_FILE_S: Final = 600.0
"""Longest time for one file in one sync, so that a slow one leaves time for others; the next sync continues with it."""

MAX_SYNC_S: Final = 1_800.0
"""Longest time for a whole sync: half an hour, 90 MB at 50 kB/s; the next one continues where it ended."""

HALT_RECHECK_S: Final = 60
"""Longest time in which blobs are fetched without asking for the halt again: a check costs about a kilobyte."""

CLOSE_WAIT_S: Final = 1.0
"""Longest time for which closing waits for a sync that it has cancelled: it may be running a model's own samples."""

CHUNK_BYTES: Final = 65_536
"""Bytes that are read, hashed and written at a time."""

MAX_METADATA_BYTES: Final = 5_000_000
"""Largest file of the signed tree; the tree's reader has tighter bounds for each role."""

MAX_ANSWER_BYTES: Final = 4_096
"""Largest answer to an upload; nothing in it is used."""

MAX_HPKE_CONFIG_BYTES: Final = 4_096
"""Largest list of an aggregator's keys; one of ours has 43 bytes, and a key of another algorithm about 2,000."""

TOKEN_KEY_BYTES: Final = 346
"""Size of an issuer's public key; all have the same."""

MAX_HPKE_CONFIG_S: Final = 86_400
"""Longest time for which an aggregator's key is used without asking again; it opens reports for two days after it was
replaced."""

MAX_STATE_BYTES: Final = 4_000_000
"""Largest state file that is read: 64 features with a task each take about 100 kB."""

MAX_PENDING: Final = 256
"""Outcomes that wait for a report, one a task and window: four of each feature; a policy could name new tasks at every
sync, and a file that grows beyond what is read would end all reports."""

MAX_METRIC_NAMES: Final = 256
"""Names of an app's own metrics that are counted apart in memory: more are a bug that makes names."""

MAX_HISTORY_ANSWERS: Final = 64
"""Own answers of a feature that a device remembers: a share of them is known to about six per cent."""

MAX_HISTORIES: Final = 64
"""Features whose answers a device remembers: as many as one app may use."""

MAX_HISTORY_BYTES: Final = 65_536
"""Largest file of remembered answers, or of tasks met, that is read: full ones take about 10 kB."""

SECRET_BYTES: Final = 32
"""Size of the secret made at installation: 256 bits cannot be guessed."""

ALL_VERSIONS_BYTES: Final = 8_000_000
"""Bytes of programs that every device fetches so that none shows its arm or its attributes; the server's bound too."""

MAX_QUESTIONS: Final = 4
"""Audiences, and arms too large to hide, that a device answers to in 30 days: each tells at most yes or no."""

MIN_SYNC_INTERVAL_S: Final = 1.0
"""Shortest interval of the background sync, so that a wrong argument is no flood."""

ASYNC_WORKERS: Final = 2
"""Threads that serve `predict_async`; a model uses one core at a time."""

MAX_CRASHES: Final = 3
"""Crashes in a row, by weight, after which a version is quarantined: one may be the user's, two a coincidence."""

CRASH_WEIGHT_S: Final = 1.0
"""Seconds in native code up to which a process that ends there counts as a whole crash.  Of apps that live a minute or
more, one in sixty is then killed there by chance, and three in a row in 200,000 starts."""

MAX_REFUSALS: Final = 3
"""Times that a program is fetched and refused at its installation; the first may have been a loaded device's fault."""

MAX_REASON: Final = 500
"""Characters of a refusal's reason that are kept."""

MAX_REFUSALS_BYTES: Final = 65_536
"""Bytes that are read of a version's refusals."""

ALIKE: Final = 1.25
"""Ratio up to which two crashes came as far into their runs: three kills at random moments of a long run are so alike
one time in 25."""

SLOW_RUN_S: Final = 0.5
"""Seconds of a run from which on it is noted how far the next one is."""

PULSE_S: Final = 0.25
"""Seconds between such notes."""

MAX_CRASHES_KEPT: Final = 4
"""Crashes in a row that are remembered of a version, for each kind of process: an app that is in native code nine
tenths of the time is killed there nine times of ten, in rows of any length; with these four, one in 60,000 starts is
taken for a loop, and one in 250,000 of apps that are there a tenth of the time."""

MAX_RETRY_AFTER_S: Final = 43_200
"""Longest wait that a server may ask for; with the jitter, up to as much again, a day."""

MAX_BACKOFF_S: Final = 57_600.0
"""Longest mean wait after failures; with the jitter, up to half more, a day: nothing keeps a device away for longer."""

DISK_RESERVE_BYTES: Final = 1_000_000
"""What a download leaves free for state, metadata and ledger, which are written when it is installed."""

MAX_DEADLINE_MS: Final = 600_000.0
"""Longest deadline of a prediction: ten minutes; an app that would wait longer wants none."""

MAX_STREAM_THREADS: Final = 16
"""Most threads of a stream's session: as many as the runtime takes."""

MAX_WARM_UP_S: Final = 2.0
"""Longest time for which the version before answers while a new one's session warms up: one that was halted must go."""

MAX_STALE_S: Final = 14 * 86_400.0
"""Age above which what was installed answers no more, unless the app says otherwise: a halt can be hidden for two weeks
at most, and a holiday without a network costs nobody their model."""

FRESH_S: Final = 86_400
"""Age above which a device says that it is stale: as long as a tree's timestamp lives."""

MIN_MAX_STALE_S: Final = 86_400.0
"""Least such age: a tree's timestamp lives a day, so nothing newer needs to be heard within one."""

LOOK_STORE_S: Final = 3_600
"""Time that may be counted before it is written down: what a process that is killed forgets, and a write an hour."""

MAX_FRESHNESS_BYTES: Final = 8_192
"""Largest record of freshness that is read: one with the ids of 16 keys takes 1,400 bytes."""
