/* What do programs answer?  For tests of processors that Python does not run on: answers CASES ANSWERS
 *
 * CASES, little-endian: u32 count, then for each case
 *   u32 bytes of the program, the program, u32 inputs, then for each input
 *     u32 type, u32 rank, u64 dims[rank], u64 bytes, the data         (the types are those of alcove.h; a text has rank 0)
 * ANSWERS: for each case u32 status, then if it is 0 u32 outputs and for each u64 bytes and the data, else u32 bytes and the
 * message.  A hostile floating-point mode is set before the runs: rounding up and denormals flushed to zero, as an app may. */
#define _GNU_SOURCE
#include <fenv.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alcove.h"

static FILE *cases, *answers;

static void take(void *to, size_t size) {
  if (size > 0 && fread(to, 1, size, cases) != size) {
    fprintf(stderr, "answers: the cases end too early\n");
    exit(1);
  }
}

static uint32_t take_u32(void) {
  uint32_t value;
  take(&value, sizeof(value));
  return value;
}

static uint64_t take_u64(void) {
  uint64_t value;
  take(&value, sizeof(value));
  return value;
}

static void *take_bytes(size_t size) {
  void *data = malloc(size + 1);
  if (data == NULL) abort();
  take(data, size);
  return data;
}

static void put(const void *from, size_t size) {
  if (size > 0 && fwrite(from, 1, size, answers) != size) {
    fprintf(stderr, "answers: cannot write\n");
    exit(1);
  }
}

static void put_u32(uint32_t value) { put(&value, sizeof(value)); }

static size_t element_bytes(alcove_dtype dtype) {
  return dtype == ALCOVE_F32 || dtype == ALCOVE_I32 ? 4 : dtype == ALCOVE_I64 ? 8 : 1;
}

struct input {
  uint32_t dtype, rank;
  uint64_t dims[ALCOVE_MAX_RANK];
  uint64_t bytes;
  void *data;
};

static alcove_status set_inputs(alcove_session *session, const struct input *inputs, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    const struct input *in = &inputs[i];
    if (in->dtype == ALCOVE_TEXT) continue;
    const alcove_status status = alcove_session_set_dims(session, i, in->dims, in->rank);
    if (status != ALCOVE_OK) return status;
  }
  for (uint32_t i = 0; i < count; ++i) {
    const struct input *in = &inputs[i];
    const alcove_status status =
        in->dtype == ALCOVE_TEXT
            ? alcove_session_set_text(session, i, in->data, in->bytes)
            : alcove_session_set_tensor(session, i, (alcove_dtype)in->dtype, in->dims, in->rank, in->data);
    if (status != ALCOVE_OK) return status;
  }
  return ALCOVE_OK;
}

static alcove_status run(alcove_session *session) {
#if defined(__aarch64__)
  uint64_t ours, after;
  const uint64_t hostile = (1u << 24) | (1u << 22); /* flush to zero, round up */
  __asm__ volatile("mrs %0, fpcr" : "=r"(ours));
  __asm__ volatile("msr fpcr, %0" : : "r"(hostile));
  const alcove_status status = alcove_session_run(session);
  __asm__ volatile("mrs %0, fpcr" : "=r"(after));
  __asm__ volatile("msr fpcr, %0" : : "r"(ours));
  if (after != hostile) {
    fprintf(stderr, "answers: the run changed the caller's floating-point mode\n");
    exit(1);
  }
  return status;
#else
  fesetround(FE_UPWARD);
  const alcove_status status = alcove_session_run(session);
  fesetround(FE_TONEAREST);
  return status;
#endif
}

static void put_outputs(const alcove_model *model, const alcove_session *session) {
  const uint32_t count = (uint32_t)alcove_model_output_count(model);
  put_u32(ALCOVE_OK);
  put_u32(count);
  for (uint32_t i = 0; i < count; ++i) {
    alcove_port port;
    const void *data;
    uint64_t extent, dims[ALCOVE_MAX_RANK];
    size_t rank;
    if (alcove_model_output(model, i, &port) != ALCOVE_OK || alcove_session_output(session, i, &data, &extent) != ALCOVE_OK ||
        alcove_session_output_dims(session, i, dims, &rank) != ALCOVE_OK) {
      fprintf(stderr, "answers: %s\n", alcove_last_error());
      exit(1);
    }
    uint64_t bytes = element_bytes(port.dtype);
    for (size_t d = 0; d < rank; ++d) bytes *= d == 0 ? extent : dims[d];
    put(&bytes, sizeof(bytes));
    put(data, bytes);
  }
}

static void answer(void) {
  const uint32_t size = take_u32();
  void *program = take_bytes(size);
  const uint32_t count = take_u32();
  struct input *inputs = calloc(count + 1, sizeof(*inputs));
  if (inputs == NULL) abort();
  for (uint32_t i = 0; i < count; ++i) {
    inputs[i].dtype = take_u32();
    inputs[i].rank = take_u32();
    take(inputs[i].dims, inputs[i].rank * sizeof(uint64_t));
    inputs[i].bytes = take_u64();
    inputs[i].data = take_bytes(inputs[i].bytes);
  }
  alcove_model *model = NULL;
  alcove_session *session = NULL;
  alcove_status status = alcove_model_open_bytes(program, size, &model);
  if (status == ALCOVE_OK) status = alcove_session_create(model, &session);
  if (status == ALCOVE_OK) status = set_inputs(session, inputs, count);
  if (status == ALCOVE_OK) status = run(session);
  if (status == ALCOVE_OK) {
    put_outputs(model, session);
  } else {
    const char *why = alcove_last_error();
    put_u32((uint32_t)status);
    put_u32((uint32_t)strlen(why));
    put(why, strlen(why));
  }
  alcove_session_close(session);
  alcove_model_close(model);
  for (uint32_t i = 0; i < count; ++i) free(inputs[i].data);
  free(inputs);
  free(program);
}

int main(int count, char **arguments) {
  if (count != 3) {
    fprintf(stderr, "usage: answers CASES ANSWERS\n");
    return 2;
  }
  cases = fopen(arguments[1], "rb");
  answers = fopen(arguments[2], "wb");
  if (cases == NULL || answers == NULL) {
    perror("answers");
    return 1;
  }
  for (uint32_t left = take_u32(); left > 0; --left) answer();
  return fclose(answers) == 0 && fclose(cases) == 0 ? 0 : 1;
}
