"""Bounds the size of documents and the number of things in them; every bound has its unit and its reason."""

from typing import Final

POLICY_MAX_BYTES: Final = 2 * 1024 * 1024  # 1 000 live experiments take about 1 MB; most apps' policies, a few kB
HALT_MAX_BYTES: Final = 64 * 1024  # about 300 halted versions
MANIFEST_MAX_BYTES: Final = 128 * 1024  # labels of a 1 000-class model take about 20 kB
CARD_MAX_BYTES: Final = 1024 * 1024  # a model card is text with tables
LINEAGE_ID_LENGTH: Final = 128  # characters; run ids and revisions have about 40
LINEAGE_DATA_LENGTH: Final = 2000  # characters; a paragraph that names corpora and their cut
PROGRAM_MAX_BYTES: Final = 256 * 1024 * 1024  # what a phone may be asked to download for one variant

ROOT_METADATA_MAX_BYTES: Final = 64 * 1024  # some ten keys
TIMESTAMP_METADATA_MAX_BYTES: Final = 16 * 1024  # one entry
SNAPSHOT_METADATA_MAX_BYTES: Final = 256 * 1024  # about 1 500 roles
TARGETS_METADATA_MAX_BYTES: Final = 1024 * 1024  # one role; 64 versions and their neighbours take about 20 kB
BIN_VERSIONS: Final = 64  # versions that one list or bin holds before it is spread: 17 kB, what a device reads of it
BIN_BITS_STEP: Final = 2  # four times as many bins at each spreading, so that few versions of a team spread it
BIN_BITS_MAX: Final = 8  # 256 bins; each costs every device an entry of the snapshot
SIGNING_REQUEST_MAX_BYTES: Final = (
    8 * 1024 * 1024
)  # all bins of a team with 20 000 versions, as a change of its key signs again
KEYS_MAX: Final = 16  # of one role; more signers than any ceremony brings together

APP_NAME: Final = r"[a-z0-9][a-z0-9._-]{0,63}"  # a folder of the tree, on disks that tell capitals apart or do not
APP_NAME_BOUND: Final = "1 to 64 of a-z, 0-9, '.', '_' and '-', a letter or digit first"
FEATURES_MAX: Final = 64  # features that one app may use
ARMS_MAX: Final = 8  # a device fetches every arm of its experiment
EXPERIMENTS_MAX: Final = 256  # running for one feature; their audiences are compared in pairs as a policy is read
LAYERS_MAX: Final = 64  # of one app; each costs a device one keyed hash
LATENCY_EDGES_MAX: Final = 15  # 16 bins: each bin costs accuracy under randomized response
LATENCY_EDGE_MAX_MS: Final = 600_000.0  # ten minutes; anything slower is one bin
PRE_EDGES_MAX: Final = 7  # 9 bins of what a device did before: more say little and cost every other cell precision
PRE_ANSWERS_MIN: Final = 5  # answers below which a share of them says nothing of a device
CELLS_MAX: Final = 256  # 8 arms x 2 outcomes x 16 bins; fits a report's two bytes; a report by Prio3 takes 5.7 kB
BATCH_MIN: Final = 100  # reports of a window whose sums are released: a smaller crowd hides nobody without the noise
BATCH_MAX: Final = 10**9  # devices of the largest app; more would never be reached
AGGREGATOR_URL_LENGTH: Final = 1024  # characters; both travel in a header of each request, 4096 bytes in all
TOKEN_ISSUER_LENGTH: Final = 128  # characters; it shares DAP's 255 bytes of task_info with epsilon and the task's id
TASKS_MAX: Final = 4  # of a comparison, of which a device reports one: more leave too few devices for each
DIMENSION_VALUES_MAX: Final = TASKS_MAX - 1  # that a dimension names: each has a task, and so has "other"
OUTCOMES_MAX: Final = 8  # the user's answers that an experiment tells apart
METRIC_EDGES_MAX: Final = 14  # of a team's own metric: 16 bins with that of devices that recorded nothing
METRIC_VALUE_MAX: Final = 999_999  # of a metric's edge or cap, in its unit: six digits, as decimals in documents have
METRIC_VERSIONS_MAX: Final = 1000  # of one metric; a definition that changes every week lasts 19 years
EPSILON_MAX: Final = 8  # what a device may spend in 30 days
WINDOW_MIN_S: Final = 3600  # an hour; a report names its window, and with it when the device was used
WINDOW_MAX_S: Final = 31 * 86_400  # a month; the ledger looks back 30 days
HALTED_MAX: Final = 256  # versions halted at once
REINSTATEMENTS_MAX: Final = 256  # what one team has reinstated, each thing once; as many as may be halted

PARAMETERS_MAX: Final = 32  # of one version: what a team can watch; a policy repeats them for each arm
PARAMETER_CHOICES_MAX: Final = 32  # texts that one parameter may be
PARAMETER_DESCRIPTION_MAX: Final = 200  # characters: a sentence for whoever sets it
PARAMETER_TEXT_MAX: Final = 64  # characters of such a text: a name for something in the app, not the thing itself
DELTAS_MAX: Final = 4  # bases of one program; devices that sync monthly are rarely further behind
VARIANTS_MAX: Final = 16  # kinds of device that one version tells apart
PORTS_MAX: Final = 64  # inputs or outputs of a program
LABELS_MAX: Final = 8192  # names that one output may choose from
RANK_MAX: Final = 8  # dimensions of a tensor

AUDIENCE_VALUES_MAX: Final = 64  # values of one set: all languages of a large app; a device compares with each
AUDIENCE_LENGTH_MAX: Final = 4096  # characters of its text form; six attributes with full sets take about 3 000
MEMORY_MAX_MB: Final = 2**24 - 1  # megabytes of memory a device may state: 16 TiB
APP_VERSION_PART_MAX: Final = 999_999  # of an app's version number, as of our own versions

SERIAL_MAX: Final = 2**53 - 1  # every JSON reader holds it exactly
TIME_MAX_S: Final = 2**40  # seconds since 1970; far beyond any clock, small enough for every reader

ARM_RANGES_MAX: Final = 256  # of one experiment whose arms moved; a year of daily moves of eight arms makes 40
POLICY_BUCKETS: Final = 10_000  # shares are in basis points: 1/10 000
