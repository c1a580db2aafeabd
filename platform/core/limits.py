"""Which bounds does the server put on what it accepts?  Each line: unit and the reason for the number."""

CHUNK_BYTES = 1024 * 1024  # bytes; one message of an upload, below gRPC's default message cap of 4 MiB
MESSAGE_BYTES = 8 * 1024 * 1024  # bytes; a team's metadata with thousands of versions fits
REQUEST_ID_LENGTH = (8, 64)  # characters; a UUID fits, an accident of "1" does not
REASON_LENGTH = 500  # characters of an audited reason
TAGS_MAX = 32  # of one version; each answer carries them all
ALIASES_MAX = 32  # of one feature; likewise
TAG_FILTERS_MAX = 8  # of one search; each is a look-up of its own
SEARCH_WORDS = (8, 200)  # most words and characters of one search; each word is one pass over the texts
SEARCH_TEXT_LENGTH = 65_536  # characters of a version that a search looks through; a card has about 5 000
HISTORY_SHOWN = 100  # newest entries of a version's or a feature's history in one answer
ALLOWED_OPS_MAX = 512  # operators in a feature's rules; the runtime has fewer
PAGE_BYTES = MESSAGE_BYTES // 2  # bytes of one page; a thousand versions with all their tags are more than a message
PAGE_SIZE = (100, 1000)  # entries; default and most in one answer
WINDOW_S_DEFAULT = 86_400  # seconds; one report a day
MINIMUM_COHORT = (50, 10_000_000)  # devices per arm before a winner may be named
MINIMUM_COHORT_DEFAULT = 1000  # devices per arm; research: noise makes smaller cohorts useless
WINDOW_LATE_S = 300  # seconds that a device's clock may be behind ours at the start of an experiment
WINDOW_SKEW_S = 3600  # seconds that a device's clock may be ahead of ours when it opens a window
CALLS_AT_ONCE = 256  # gRPC calls under way; more are refused with RESOURCE_EXHAUSTED
CONNECTION_AGE_MS = 3_600_000  # milliseconds; an old connection is asked to open anew, so that none leaks for ever
CALLS_TIMEOUT_S = 30.0  # seconds; deadline that the client puts on each call
UPLOAD_TIMEOUT_S = 600.0  # seconds; deadline of an upload
SHUTDOWN_GRACE_S = 5.0  # seconds that calls under way may take after SIGTERM
