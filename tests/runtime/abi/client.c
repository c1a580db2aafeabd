/* Runs a program through alcove.h alone, counting what is allocated meanwhile.
 *
 *   client FILE TEXT   prints one "name value" a line
 *
 * The program must take one text and give values float32 [1, k] and labelled indices int64 [1, k].
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alcove.h"

/* The library's own calls come here too: the executable's symbols go first. */
extern void* __libc_malloc(size_t size);
extern void* __libc_calloc(size_t count, size_t size);
extern void* __libc_realloc(void* old, size_t size);
extern void* __libc_memalign(size_t alignment, size_t size);

static long allocations = 0;

#ifndef PLAIN_HEAP /* or a tool that looks for errors has its own */
void* malloc(size_t size) {
  ++allocations;
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  ++allocations;
  return __libc_calloc(count, size);
}
void* realloc(void* old, size_t size) {
  ++allocations;
  return __libc_realloc(old, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  ++allocations;
  return __libc_memalign(alignment, size);
}
#endif

static int failures = 0;

static void expect(alcove_status seen, alcove_status expected, const char* what) {
  if (seen == expected) return;
  ++failures;
  printf("failed %s: status %d, expected %d (%s)\n", what, (int)seen, (int)expected, alcove_last_error());
}

/* Every function with null handles: a status, a 0, or nothing. */
static void call_with_nulls(void) {
  alcove_model* model = NULL;
  alcove_session* session = NULL;
  alcove_port port;
  const char* text = NULL;
  size_t bytes = 0;
  const void* data = NULL;
  uint64_t extent = 0;
  float value = 0;
  expect(alcove_model_open_file(NULL, &model), ALCOVE_BAD_CALL, "open_file without path");
  expect(alcove_model_open_file("x", NULL), ALCOVE_BAD_CALL, "open_file without model");
  expect(alcove_model_open_bytes(NULL, 1, &model), ALCOVE_BAD_CALL, "open_bytes without data");
  expect(alcove_model_open_bytes("x", 1, NULL), ALCOVE_BAD_CALL, "open_bytes without model");
  expect(alcove_model_open_bytes(NULL, 0, &model), ALCOVE_BAD_PROGRAM, "open_bytes of nothing");
  model = (alcove_model*)&value;
  expect(alcove_model_open_bytes(&value, (size_t)1 << 62, &model), ALCOVE_BAD_PROGRAM, "open_bytes of too much");
  if (model != NULL) ++failures;
  expect(alcove_model_verify_weights(NULL), ALCOVE_BAD_CALL, "verify_weights");
  expect(alcove_model_input(NULL, 0, &port), ALCOVE_BAD_CALL, "input");
  expect(alcove_model_output(NULL, 0, &port), ALCOVE_BAD_CALL, "output");
  expect(alcove_model_output_label(NULL, 0, 0, &text, &bytes), ALCOVE_BAD_CALL, "output_label");
  expect(alcove_session_create(NULL, &session), ALCOVE_BAD_CALL, "session_create");
  expect(alcove_session_set_text(NULL, 0, "x", 1), ALCOVE_BAD_CALL, "set_text");
  expect(alcove_session_set_tensor(NULL, 0, ALCOVE_F32, NULL, 0, &value), ALCOVE_BAD_CALL, "set_tensor");
  expect(alcove_session_run(NULL), ALCOVE_BAD_CALL, "run");
  expect(alcove_session_output(NULL, 0, &data, &extent), ALCOVE_BAD_CALL, "session_output");
  expect(alcove_session_create_within(NULL, 1, &session), ALCOVE_BAD_CALL, "session_create_within");
  expect(alcove_session_set_dims(NULL, 0, &extent, 1), ALCOVE_BAD_CALL, "set_dims");
  expect(alcove_session_output_dims(NULL, 0, &extent, &bytes), ALCOVE_BAD_CALL, "output_dims");
  expect(alcove_session_reset(NULL), ALCOVE_BAD_CALL, "reset");
  expect(alcove_session_cancel(NULL), ALCOVE_BAD_CALL, "cancel");
  expect(alcove_session_uncancel(NULL), ALCOVE_BAD_CALL, "uncancel");
  if (alcove_model_input_count(NULL) + alcove_model_output_count(NULL) + alcove_model_memory_ceiling(NULL) != 0) ++failures;
  alcove_model_close(NULL);
  alcove_session_close(NULL);
}

/* Calls with a model and a session that are wrong in another way. */
static void call_wrongly(alcove_model* model, alcove_session* session) {
  alcove_port port;
  const char* text = NULL;
  size_t bytes = 0;
  const void* data = NULL;
  uint64_t extent = 0;
  uint64_t dims[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  float value = 0;
  alcove_session* other = NULL;
  expect(alcove_model_input(model, 1, &port), ALCOVE_BAD_CALL, "input 1");
  expect(alcove_model_input(model, 0, NULL), ALCOVE_BAD_CALL, "input into null");
  expect(alcove_model_output(model, 2, &port), ALCOVE_BAD_CALL, "output 2");
  expect(alcove_model_output_label(model, 0, 0, &text, &bytes), ALCOVE_BAD_CALL, "label of values");
  expect(alcove_model_output_label(model, 1, 1000000, &text, &bytes), ALCOVE_BAD_CALL, "label 1000000");
  expect(alcove_model_output_label(model, 1, 0, NULL, &bytes), ALCOVE_BAD_CALL, "label into null");
  expect(alcove_session_create(model, NULL), ALCOVE_BAD_CALL, "create into null");
  expect(alcove_session_run(session), ALCOVE_BAD_INPUT, "run without input");
  expect(alcove_session_set_text(session, 1, "x", 1), ALCOVE_BAD_INPUT, "text 1");
  expect(alcove_session_set_text(session, 0, NULL, 1), ALCOVE_BAD_CALL, "null text");
  expect(alcove_session_set_tensor(session, 0, ALCOVE_F32, dims, 1, &value), ALCOVE_BAD_INPUT, "tensor for text");
  expect(alcove_session_set_tensor(session, 0, ALCOVE_F32, dims, 9, &value), ALCOVE_BAD_INPUT, "rank 9");
  expect(alcove_session_set_tensor(session, 0, ALCOVE_F32, NULL, 1, &value), ALCOVE_BAD_CALL, "null dims");
  expect(alcove_session_set_tensor(session, 0, ALCOVE_F32, dims, 1, NULL), ALCOVE_BAD_CALL, "null data");
  expect(alcove_session_set_tensor(session, 0, (alcove_dtype)0, dims, 1, &value), ALCOVE_BAD_CALL, "dtype 0");
  expect(alcove_session_set_text(session, 0, "\xFF", 1), ALCOVE_OK, "bad text is seen in the run");
  expect(alcove_session_run(session), ALCOVE_BAD_TEXT, "bad text");
  expect(alcove_session_output(session, 0, &data, &extent), ALCOVE_BAD_CALL, "output after a failed run");
  expect(alcove_session_output(session, 2, &data, &extent), ALCOVE_BAD_CALL, "output 2 of session");
  expect(alcove_session_create(model, &other), ALCOVE_OK, "another session");
  expect(alcove_session_output(other, 0, &data, &extent), ALCOVE_BAD_CALL, "output before any run");
  expect(alcove_session_output_dims(other, 0, dims, &bytes), ALCOVE_BAD_CALL, "dims before any run");
  expect(alcove_session_output_dims(other, 0, NULL, &bytes), ALCOVE_BAD_CALL, "dims into null");
  expect(alcove_session_set_dims(other, 0, dims, 1), ALCOVE_BAD_INPUT, "dims of a text");
  expect(alcove_session_set_dims(other, 0, NULL, 1), ALCOVE_BAD_CALL, "null dims");
  expect(alcove_session_reset(other), ALCOVE_OK, "reset of a model without states");
  expect(alcove_session_cancel(other), ALCOVE_OK, "cancel");
  expect(alcove_session_set_text(other, 0, "x", 1), ALCOVE_OK, "text of a cancelled session");
  expect(alcove_session_run(other), ALCOVE_CANCELLED, "run of a cancelled session");
  if (strcmp(alcove_last_error_code(), "run_cancelled") != 0) expect(ALCOVE_OK, ALCOVE_CANCELLED, "code of a cancelled run");
  expect(alcove_session_output(other, 0, &data, &extent), ALCOVE_BAD_CALL, "output of a cancelled run");
  expect(alcove_session_uncancel(other), ALCOVE_OK, "uncancel");
  expect(alcove_session_set_text(other, 0, NULL, 0), ALCOVE_OK, "empty text may be null");
  expect(alcove_session_run(other), ALCOVE_OK, "run of empty text");
  alcove_session_close(other);
  other = NULL;
  expect(alcove_session_create_within(model, 64, &other), ALCOVE_BAD_INPUT, "a session in 64 bytes");
  expect(alcove_session_create_within(model, 64, NULL), ALCOVE_BAD_CALL, "create_within into null");
  if (other != NULL) ++failures;
}

static void print_answer(alcove_model* model, alcove_session* session) {
  alcove_port port;
  const void* values = NULL;
  const void* indices = NULL;
  uint64_t extent = 0;
  uint64_t dims[ALCOVE_MAX_RANK] = {0};
  size_t rank = 0;
  expect(alcove_session_output_dims(session, 1, dims, &rank), ALCOVE_OK, "dims of output 1");
  expect(alcove_model_output(model, 1, &port), ALCOVE_OK, "output 1");
  if (rank != port.rank || dims[0] != port.dims[0] || dims[1] != port.dims[1] || dims[1] != port.least_dims[1]) ++failures;
  expect(alcove_session_output(session, 0, &values, &extent), ALCOVE_OK, "values");
  expect(alcove_session_output(session, 1, &indices, &extent), ALCOVE_OK, "indices");
  printf("port %.*s %d %u %llu %llu %u\n", (int)port.name_bytes, port.name, (int)port.dtype, (unsigned)port.rank,
         (unsigned long long)port.dims[0], (unsigned long long)port.dims[1], (unsigned)port.label_count);
  for (uint64_t i = 0; i < port.dims[1]; ++i) {
    const char* label = NULL;
    size_t bytes = 0;
    uint32_t bits = 0;
    const int64_t index = ((const int64_t*)indices)[i];
    memcpy(&bits, (const char*)values + 4 * i, 4);
    expect(alcove_model_output_label(model, 1, (uint32_t)index, &label, &bytes), ALCOVE_OK, "label");
    printf("answer %08x %.*s\n", (unsigned)bits, (int)bytes, label);
  }
}

/* What ran, and whether the timestamps of the last profiled run rise; too little room is refused. */
static void print_timestamps(const alcove_model* model, alcove_session* session, int64_t* timestamps, const char* text) {
  const size_t ops = alcove_model_op_count(model);
  const char *name = NULL, *source = NULL;
  size_t source_bytes = 0;
  for (size_t i = 0; i < ops; ++i) {
    expect(alcove_model_op(model, i, &name, &source, &source_bytes), ALCOVE_OK, "op");
    printf("op %s %.*s\n", name, (int)source_bytes, source);
    expect(timestamps[i + 1] >= timestamps[i] && timestamps[i] > 0 ? ALCOVE_OK : ALCOVE_SYSTEM, ALCOVE_OK, "timestamps rise");
  }
  expect(timestamps[ops + 1] >= timestamps[ops] && timestamps[ops + 2] == 0 ? ALCOVE_OK : ALCOVE_SYSTEM, ALCOVE_OK, "last timestamp");
  expect(alcove_model_op(model, ops, &name, &source, &source_bytes), ALCOVE_BAD_CALL, "op beyond");
  expect(alcove_model_op(NULL, 0, &name, &source, &source_bytes), ALCOVE_BAD_CALL, "op of null");
  expect(alcove_session_set_text(session, 0, text, strlen(text)), ALCOVE_OK, "set_text");
  expect(alcove_session_run_profiled(session, timestamps, ops + 1), ALCOVE_BAD_CALL, "too little room");
  expect(alcove_session_run_profiled(session, NULL, ops + 2), ALCOVE_BAD_CALL, "timestamps null");
  expect(alcove_session_run_profiled(NULL, timestamps, ops + 2), ALCOVE_BAD_CALL, "run_profiled of null");
}

int main(int count, char** arguments) {
  alcove_model* model = NULL;
  alcove_session* session = NULL;
  if (count != 3) return 2;
  call_with_nulls();
  expect(alcove_model_open_file("/nonexistent", &model), ALCOVE_SYSTEM, "absent file");
  expect(alcove_model_open_file(arguments[1], &model), ALCOVE_OK, "open");
  if (model == NULL) return 1;
  expect(alcove_model_verify_weights(model), ALCOVE_OK, "verify_weights");
  expect(alcove_session_create(model, &session), ALCOVE_OK, "create");
  call_wrongly(model, session);

  const size_t size = strlen(arguments[2]);
  int64_t timestamps[64] = {0};
  const long before = allocations;
  for (int i = 0; i < 100; ++i) {
    expect(alcove_session_set_text(session, 0, arguments[2], size), ALCOVE_OK, "set_text");
    expect(alcove_session_run(session), ALCOVE_OK, "run");
    expect(alcove_session_set_text(session, 0, arguments[2], size), ALCOVE_OK, "set_text");
    expect(alcove_session_run_profiled(session, timestamps, 64), ALCOVE_OK, "run_profiled");
    expect(alcove_session_set_text(session, 0, "\xE2\x82", 2), ALCOVE_OK, "set bad text");
    expect(alcove_session_run(session), ALCOVE_BAD_TEXT, "run of bad text");
  }
  printf("allocations_before %ld\nallocations_in_runs %ld\n", before, allocations - before);
  print_timestamps(model, session, timestamps, arguments[2]);

  expect(alcove_session_set_text(session, 0, arguments[2], size), ALCOVE_OK, "set_text");
  expect(alcove_session_run(session), ALCOVE_OK, "run");
  printf("abi %u\nceiling %llu\n", (unsigned)alcove_abi_version(), (unsigned long long)alcove_model_memory_ceiling(model));
  alcove_model_close(model); /* the session goes on */
  expect(alcove_session_set_text(session, 0, arguments[2], size), ALCOVE_OK, "set_text after close");
  expect(alcove_session_run(session), ALCOVE_OK, "run after close");
  expect(alcove_model_open_file(arguments[1], &model), ALCOVE_OK, "open again");
  print_answer(model, session);
  alcove_session_close(session);
  alcove_model_close(model);
  printf("failures %d\n", failures);
  return failures == 0 ? 0 : 1;
}
