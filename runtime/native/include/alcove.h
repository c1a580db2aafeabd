/* The C interface of alcove's runtime: open a program, run it, read what it answers.  Version 2.
 *
 * Handles are opaque.  No function throws, and no type of C++ is seen.  Every function that can fail returns an alcove_status;
 * for the calling thread, alcove_last_error() says why in words and alcove_last_error_code() by a name that stays.  Pointers
 * that a call takes need live only until it returns, but for a text input, which must live until the run is over, and the
 * context of an allocator, which must outlive what was made with it.
 *
 * Threads.  A model is immutable: any number of threads may use it at once, and close it once, when none of them will use it
 * again (sessions may go on).  A session belongs to one thread at a time, whichever: a second one that sets, runs or resets it
 * meanwhile gets ALCOVE_BUSY, and nothing changes.  Outputs are read, and a session is closed, by the thread that ran it, or
 * by one that knows that it is done; any thread may cancel it.  In the child of a fork, models and sessions that no thread was using go on.  Signal
 * handlers must not call; they may interrupt.
 *
 * Compatibility (docs/compatibility.md).  ALCOVE_ABI_VERSION rises when something here breaks.  Functions are added at any
 * time; structs whose first member is `struct_bytes` grow at their end, and hosts that were built before stay right: members
 * that they don't know have their defaults.  Other structs, and the numbers of an enum, never change; enums may grow.
 */
#ifndef ALCOVE_H
#define ALCOVE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define ALCOVE_API __attribute__((visibility("default")))
#else
#define ALCOVE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define ALCOVE_ABI_VERSION 2

typedef enum alcove_status {
  ALCOVE_OK = 0,
  ALCOVE_BAD_PROGRAM = 1, /* the bytes are no valid program */
  ALCOVE_BAD_INPUT = 2,   /* an input does not fit its port, or was not set */
  ALCOVE_BAD_TEXT = 3,    /* a text is not UTF-8 */
  ALCOVE_BUSY = 4,        /* another thread uses the session */
  ALCOVE_BAD_ISA = 5,     /* ALCOVE_ISA names what this machine lacks, or nothing known */
  ALCOVE_SYSTEM = 6,      /* the file cannot be read, or there is no memory */
  ALCOVE_BAD_CALL = 7,    /* a null handle, an index out of range, or an output before a run */
  ALCOVE_CANCELLED = 8    /* the session was cancelled */
} alcove_status;

/* The numbers are those of the program format. */
typedef enum alcove_dtype {
  ALCOVE_F32 = 1,
  ALCOVE_I8 = 2,
  ALCOVE_I32 = 3,
  ALCOVE_I64 = 4,
  ALCOVE_U8 = 5,
  ALCOVE_BOOL = 6,
  ALCOVE_TEXT = 7
} alcove_dtype;

#define ALCOVE_MAX_RANK 8
#define ALCOVE_MAX_THREADS 16

/* An input or output.  The name lives as long as the model. */
typedef struct alcove_port {
  const char* name; /* UTF-8, not terminated */
  size_t name_bytes;
  alcove_dtype dtype;
  uint32_t rank;
  uint64_t dims[ALCOVE_MAX_RANK];       /* the greatest, where sizes come with the inputs */
  uint64_t least_dims[ALCOVE_MAX_RANK]; /* as dims, where the size is known */
  int32_t is_ragged;                    /* dims[0] is an upper bound */
  uint32_t label_count;                 /* names of the indices that an I32 or I64 output holds; 0: none */
} alcove_port;

typedef struct alcove_model alcove_model;
typedef struct alcove_session alcove_session;

/* Where memory comes from: all that a model or session takes, but for the stacks of its threads and mapped files.  `allocate`
 * returns `bytes`, more than 0, at a multiple of `alignment`, a power of two of at most 64; or null, and the call that needed
 * them returns ALCOVE_SYSTEM.  `release` gets what `allocate` returned, and the bytes asked for.  Both are called by the thread
 * that opens, creates, sets or closes, never in a run; they must not call back. */
typedef struct alcove_allocator {
  uint32_t struct_bytes; /* sizeof(alcove_allocator) */
  void* context;
  void* (*allocate)(void* context, size_t bytes, size_t alignment);
  void (*release)(void* context, void* memory, size_t bytes);
} alcove_allocator;

typedef struct alcove_model_options {
  uint32_t struct_bytes;             /* sizeof(alcove_model_options) */
  const alcove_allocator* allocator; /* null: the system's */
} alcove_model_options;

typedef struct alcove_session_options {
  uint32_t struct_bytes;             /* sizeof(alcove_session_options) */
  uint32_t threads;                  /* 1 to ALCOVE_MAX_THREADS, with the caller's; 0: 1 */
  uint64_t memory_limit_bytes;       /* 0: none */
  const alcove_allocator* allocator; /* null: the system's */
} alcove_session_options;

ALCOVE_API uint32_t alcove_abi_version(void);
/* Of the library, "1.2.3". */
ALCOVE_API const char* alcove_version(void);

/* Why the last call of this thread failed; never null, valid until the thread's next call. */
ALCOVE_API const char* alcove_last_error(void);
/* The same as a name of docs/format.md and runtime/native/core/codes.inc, such as "header_digest" or "input_shape"; "bad_call"
 * with ALCOVE_BAD_CALL, "ok" before the first failure. */
ALCOVE_API const char* alcove_last_error_code(void);

/* Opens and verifies a program.  A file that belongs to this user and that nobody may write is mapped, others are read. */
ALCOVE_API alcove_status alcove_model_open_file(const char* path, alcove_model** model);
ALCOVE_API alcove_status alcove_model_open_bytes(const void* data, size_t size, alcove_model** model);
/* The same with options; null: the defaults.  Members beyond the library's own must be zero, or it is ALCOVE_BAD_CALL. */
ALCOVE_API alcove_status alcove_model_open_file_with(const char* path, const alcove_model_options* options,
                                                     alcove_model** model);
ALCOVE_API alcove_status alcove_model_open_bytes_with(const void* data, size_t size,
                                                      const alcove_model_options* options, alcove_model** model);
/* Compares the weights with their digest: at installation, not at every load. */
ALCOVE_API alcove_status alcove_model_verify_weights(const alcove_model* model);
/* Sessions of the model go on. */
ALCOVE_API void alcove_model_close(alcove_model* model);

ALCOVE_API size_t alcove_model_input_count(const alcove_model* model);
ALCOVE_API size_t alcove_model_output_count(const alcove_model* model);
ALCOVE_API alcove_status alcove_model_input(const alcove_model* model, size_t index, alcove_port* port);
ALCOVE_API alcove_status alcove_model_output(const alcove_model* model, size_t index, alcove_port* port);
ALCOVE_API alcove_status alcove_model_output_label(const alcove_model* model, size_t output, uint32_t label,
                                                   const char** text, size_t* text_bytes);
/* A model has one method or more, entry points over the same weights and states; the first is the model's own, "forward" where
 * it is the only one.  A handle of another gives that method's ports and operators, and a session that is created with it begins
 * with that method; close it as any other.  The name is not terminated, and lives as long as the model. */
ALCOVE_API size_t alcove_model_method_count(const alcove_model* model);
ALCOVE_API alcove_status alcove_model_method_name(const alcove_model* model, size_t index, const char** name,
                                                  size_t* name_bytes);
ALCOVE_API alcove_status alcove_model_method(const alcove_model* model, const char* name, alcove_model** method);
/* What each session of the model allocates, in bytes; at most, where sizes come with the inputs. */
ALCOVE_API uint64_t alcove_model_memory_ceiling(const alcove_model* model);
ALCOVE_API size_t alcove_model_op_count(const alcove_model* model);
/* The operator that runs at place `index`: its name, terminated, and the line of the model that asked for it, "file.py:12", which
 * is not terminated and may be empty.  Both live as long as the model. */
ALCOVE_API alcove_status alcove_model_op(const alcove_model* model, size_t index, const char** name,
                                         const char** source, size_t* source_bytes);

ALCOVE_API alcove_status alcove_session_create(const alcove_model* model, alcove_session** session);
/* The same, and inputs whose sizes would take more than `memory_limit_bytes` are refused with ALCOVE_BAD_INPUT. */
ALCOVE_API alcove_status alcove_session_create_within(const alcove_model* model, uint64_t memory_limit_bytes,
                                                      alcove_session** session);
/* The same with threads that help the one that calls: 1 to ALCOVE_MAX_THREADS, with the caller's; others are refused with
 * ALCOVE_BAD_INPUT.  Answers are the same to the bit.  Each thread but the caller's adds the scratch of the op that needs most
 * to what the session allocates.  They live as long as the session; in the child of a fork the session runs without them. */
ALCOVE_API alcove_status alcove_session_create_threaded(const alcove_model* model, uint64_t memory_limit_bytes,
                                                        uint32_t threads, alcove_session** session);
/* All of that, and an allocator; null: the defaults. */
ALCOVE_API alcove_status alcove_session_create_with(const alcove_model* model, const alcove_session_options* options,
                                                    alcove_session** session);
ALCOVE_API void alcove_session_close(alcove_session* session);
ALCOVE_API alcove_status alcove_session_set_text(alcove_session* session, size_t input, const char* text, size_t size);
/* Says what dimensions an input will have.  Needed only where sizes come from several inputs: say all, then set all.  Setting
 * an input of new sizes makes those that were set before unset. */
ALCOVE_API alcove_status alcove_session_set_dims(alcove_session* session, size_t input, const uint64_t* dims,
                                                 size_t rank);
/* `dims` are of row-major `data`; copied.  `data` may be null if dims[0] is 0. */
ALCOVE_API alcove_status alcove_session_set_tensor(alcove_session* session, size_t input, alcove_dtype dtype,
                                                   const uint64_t* dims, size_t rank, const void* data);
/* Uses up the inputs: set them again before the next run.  What a model keeps from run to run changes if it succeeds. */
ALCOVE_API alcove_status alcove_session_run(alcove_session* session);
/* The same, for a profile: `timestamps` becomes nanoseconds of a steady clock before the first operator, after each, and after what a
 * model keeps has changed.  `count` is how many there is room for, at least alcove_model_op_count() + 2.  Marks of a run that
 * fails mean nothing. */
ALCOVE_API alcove_status alcove_session_run_profiled(alcove_session* session, int64_t* timestamps, size_t count);
/* Only after a run that succeeded.  `data` is valid until an input is set or the session is closed; `extent` is what is used
 * of the leading dimension. */
ALCOVE_API alcove_status alcove_session_output(const alcove_session* session, size_t output, const void** data,
                                               uint64_t* extent);
/* The shape of an output; `dims` has room for ALCOVE_MAX_RANK. */
ALCOVE_API alcove_status alcove_session_output_dims(const alcove_session* session, size_t output, uint64_t* dims,
                                                    size_t* rank);
/* Makes a method, by its name, the one that inputs are set for and that runs.  What was set, and outputs, are gone; what the model
 * keeps from run to run is that of all methods. */
ALCOVE_API alcove_status alcove_session_select(alcove_session* session, const char* name);
/* From any thread, also while another one runs the session: the run at hand ends with ALCOVE_CANCELLED, and so does every later one
 * until alcove_session_uncancel().  What the run was given is used up, what a model keeps from run to run is as before it.  It is
 * looked at between operators and within long ones (docs/robustness.md says how soon a run ends).  A run that has ended already
 * stays as it ended.  The session must not be closed meanwhile; neither call waits, fails on a session, or changes the last error. */
ALCOVE_API alcove_status alcove_session_cancel(alcove_session* session);
ALCOVE_API alcove_status alcove_session_uncancel(alcove_session* session);
/* How a token is chosen from logits.  temperature 0: the greatest; top_k 0 and top_p 1: among all. */
typedef struct alcove_sampling {
  uint32_t struct_bytes; /* sizeof(alcove_sampling) */
  uint32_t top_k;        /* among the k greatest; 0: all */
  double temperature;    /* 0 or more */
  double top_p;          /* among the fewest that together have this probability; above 0, at most 1; 0 is 1 */
  uint64_t seed;
} alcove_sampling;

/* Chooses a token from `count` logits, at most 2^22, with random bits number `draw` of the seed.  The same logits, sampling and draw
 * give the same token on every machine (runtime/native/core/sampling.h states the arithmetic).  ALCOVE_BAD_INPUT: a number is out
 * of range, or a logit is NaN or infinite. */
ALCOVE_API alcove_status alcove_sample_logits(const float* logits, size_t count, const alcove_sampling* sampling,
                                              uint64_t draw, uint32_t* token);

/* What a model keeps from run to run becomes what it was when the session was created. */
ALCOVE_API alcove_status alcove_session_reset(alcove_session* session);

#ifdef __cplusplus
}
#endif

#endif
