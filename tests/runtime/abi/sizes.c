/* Runs a program whose sizes come with its inputs, and one that keeps states, through alcove.h; counts what runs allocate.
 *
 *   sizes ROWS COUNTER   prints one "name value" a line
 *
 * The programs are `rows` and `counter` of runtime/testing.py.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alcove.h"

extern void* __libc_malloc(size_t size);
extern void* __libc_memalign(size_t alignment, size_t size);

static long allocations = 0;

#ifndef PLAIN_HEAP
void* malloc(size_t size) {
  ++allocations;
  return __libc_malloc(size);
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

static float values[256 * 4];

/* Sets x [n, 4] and y [m, 4]. */
static alcove_status set_both(alcove_session* session, uint64_t n, uint64_t m) {
  const uint64_t x[2] = {n, 4}, y[2] = {m, 4};
  alcove_status status = alcove_session_set_dims(session, 0, x, 2);
  if (status == ALCOVE_OK) status = alcove_session_set_dims(session, 1, y, 2);
  if (status == ALCOVE_OK) status = alcove_session_set_tensor(session, 0, ALCOVE_F32, x, 2, values);
  if (status == ALCOVE_OK) status = alcove_session_set_tensor(session, 1, ALCOVE_F32, y, 2, values);
  return status;
}

static void print_shape(alcove_session* session, size_t output) {
  uint64_t dims[ALCOVE_MAX_RANK] = {0};
  size_t rank = 0;
  expect(alcove_session_output_dims(session, output, dims, &rank), ALCOVE_OK, "output_dims");
  printf("shape");
  for (size_t d = 0; d < rank; ++d) printf(" %llu", (unsigned long long)dims[d]);
  printf("\n");
}

static void run_sizes(const alcove_model* model) {
  const uint64_t sizes[][2] = {{1, 2}, {16, 8}, {16, 64}, {256, 64}, {5, 3}};
  const uint64_t ceiling = alcove_model_memory_ceiling(model);
  alcove_session* session = NULL;
  alcove_port port;
  long in_runs = 0;
  expect(alcove_model_input(model, 1, &port), ALCOVE_OK, "input 1");
  printf("bounds %llu %llu\n", (unsigned long long)port.least_dims[0], (unsigned long long)port.dims[0]);
  expect(alcove_session_create(model, &session), ALCOVE_OK, "create");
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i) {
    expect(set_both(session, sizes[i][0], sizes[i][1]), ALCOVE_OK, "set");
    const long before = allocations;
    expect(alcove_session_run(session), ALCOVE_OK, "run");
    expect(set_both(session, sizes[i][0], sizes[i][1]), ALCOVE_OK, "set the same sizes again");
    expect(alcove_session_run(session), ALCOVE_OK, "run again");
    in_runs += allocations - before;
    print_shape(session, 0);
  }
  printf("allocations_in_runs %ld\n", in_runs);

  /* New sizes unset what was set before, and the run says so. */
  const uint64_t x[2] = {5, 4}, y[2] = {4, 4};
  expect(alcove_session_set_tensor(session, 0, ALCOVE_F32, x, 2, values), ALCOVE_OK, "x of the old sizes");
  expect(alcove_session_set_tensor(session, 1, ALCOVE_F32, y, 2, values), ALCOVE_OK, "y of new sizes");
  expect(alcove_session_run(session), ALCOVE_BAD_INPUT, "run with x unset");
  expect(alcove_session_set_tensor(session, 0, ALCOVE_F32, x, 2, values), ALCOVE_OK, "x again");
  expect(alcove_session_run(session), ALCOVE_OK, "run with both");
  expect(set_both(session, 257, 2), ALCOVE_BAD_INPUT, "n above its bound");
  alcove_session_close(session);

  expect(alcove_session_create_within(model, ceiling - 1, &session), ALCOVE_OK, "create within");
  expect(set_both(session, 16, 64), ALCOVE_OK, "sizes within the limit");
  expect(set_both(session, 17, 64), ALCOVE_BAD_INPUT, "sizes beyond the limit");
  alcove_session_close(session);
}

static void run_states(const alcove_model* model) {
  const uint64_t dims[1] = {5};
  alcove_session* session = NULL;
  const void* data = NULL;
  uint64_t extent = 0;
  for (int i = 0; i < 5; ++i) values[i] = 1;
  expect(alcove_session_create(model, &session), ALCOVE_OK, "create");
  for (int run = 0; run < 4; ++run) {
    if (run == 3) expect(alcove_session_reset(session), ALCOVE_OK, "reset");
    expect(alcove_session_set_tensor(session, 0, ALCOVE_F32, dims, 1, values), ALCOVE_OK, "set");
    expect(alcove_session_run(session), ALCOVE_OK, "run");
    expect(alcove_session_output(session, 0, &data, &extent), ALCOVE_OK, "output");
    printf("total %g\n", (double)((const float*)data)[4]);
  }
  alcove_session_close(session);
}

int main(int count, char** arguments) {
  alcove_model* model = NULL;
  if (count != 3) return 2;
  expect(alcove_model_open_file(arguments[1], &model), ALCOVE_OK, "open");
  if (model == NULL) return 1;
  run_sizes(model);
  alcove_model_close(model);
  expect(alcove_model_open_file(arguments[2], &model), ALCOVE_OK, "open");
  if (model == NULL) return 1;
  run_states(model);
  alcove_model_close(model);
  printf("failures %d\n", failures);
  return failures == 0 ? 0 : 1;
}
