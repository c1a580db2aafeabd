/* Sizes and offsets of the structs of alcove.h, on any 64-bit processor: a host that was built before relies on them. */
#include <stddef.h>

#include "alcove.h"

#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type)
#define AT(type, member, bytes) _Static_assert(offsetof(type, member) == (bytes), #type "." #member)

SIZE(alcove_status, 4);
SIZE(alcove_dtype, 4);

SIZE(alcove_port, 160);
AT(alcove_port, name, 0);
AT(alcove_port, name_bytes, 8);
AT(alcove_port, dtype, 16);
AT(alcove_port, rank, 20);
AT(alcove_port, dims, 24);
AT(alcove_port, least_dims, 88);
AT(alcove_port, is_ragged, 152);
AT(alcove_port, label_count, 156);

/* These may grow at their end: then the size rises, and nothing else changes. */
SIZE(alcove_allocator, 32);
AT(alcove_allocator, struct_bytes, 0);
AT(alcove_allocator, context, 8);
AT(alcove_allocator, allocate, 16);
AT(alcove_allocator, release, 24);

SIZE(alcove_model_options, 16);
AT(alcove_model_options, struct_bytes, 0);
AT(alcove_model_options, allocator, 8);

SIZE(alcove_session_options, 24);
AT(alcove_session_options, struct_bytes, 0);
AT(alcove_session_options, threads, 4);
AT(alcove_session_options, memory_limit_bytes, 8);
AT(alcove_session_options, allocator, 16);

_Static_assert(ALCOVE_ABI_VERSION == 2 && ALCOVE_MAX_RANK == 8, "numbers");
_Static_assert(ALCOVE_OK == 0 && ALCOVE_BAD_PROGRAM == 1 && ALCOVE_BAD_INPUT == 2 && ALCOVE_BAD_TEXT == 3 && ALCOVE_BUSY == 4 &&
                   ALCOVE_BAD_ISA == 5 && ALCOVE_SYSTEM == 6 && ALCOVE_BAD_CALL == 7 && ALCOVE_CANCELLED == 8,
               "statuses");
_Static_assert(ALCOVE_F32 == 1 && ALCOVE_I8 == 2 && ALCOVE_I32 == 3 && ALCOVE_I64 == 4 && ALCOVE_U8 == 5 && ALCOVE_BOOL == 6 &&
                   ALCOVE_TEXT == 7,
               "dtypes");

int main(void) { return 0; }
