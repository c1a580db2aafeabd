/* Times calls through the C interface, in one thread, or in as many as LATENCY_THREADS says.
 *
 *   latency MODEL SECONDS [INPUT.bin ...]    raw bytes of each input; without them zeros
 *
 * Prints one line of JSON: the time from the path to a session and to the first answer, the median of each of several rounds
 * of calls, all in nanoseconds, how many cores were busy in each round, and the greatest resident memory.  A call sets the inputs, runs, and
 * reads the address of the first output. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ports.h"

enum { MAX_PORTS = 64, REPEATS = 5, MAX_CALLS = 200000 };

static uint64_t read_clock(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t now(void) { return read_clock(CLOCK_MONOTONIC); }

/* What all threads of this process have taken. */
static uint64_t worked(void) { return read_clock(CLOCK_PROCESS_CPUTIME_ID); }

/* Greatest resident memory; getrusage() would tell that of the process that started this one, if it was more. */
static long peak_kib(void) {
  long kib = 0;
  char line[256];
  FILE *file = fopen("/proc/self/status", "r");
  while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
    if (strncmp(line, "VmHWM:", 6) == 0) kib = atol(line + 6);
  }
  if (file != NULL) fclose(file);
  return kib;
}

static void *read_input(const char *path, size_t size) {
  void *data = calloc(1, size);
  if (path == NULL || data == NULL) return data;
  FILE *file = fopen(path, "rb");
  if (file == NULL || fread(data, 1, size, file) != size) {
    fprintf(stderr, "latency: %s has not the %zu bytes of its input\n", path, size);
    exit(1);
  }
  fclose(file);
  return data;
}

static alcove_port ports[MAX_PORTS];
static void *inputs[MAX_PORTS];
static size_t port_count;

static void call(alcove_session *session) {
  for (size_t i = 0; i < port_count; ++i) {
    check(alcove_session_set_tensor(session, i, ports[i].dtype, ports[i].dims, ports[i].rank, inputs[i]));
  }
  check(alcove_session_run(session));
  const void *data;
  uint64_t extent;
  check(alcove_session_output(session, 0, &data, &extent));
}

static int by_size(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

int main(int count, char **arguments) {
  if (count < 3) {
    fprintf(stderr, "usage: latency MODEL SECONDS [INPUT.bin ...]\n");
    return 2;
  }
  const uint64_t opened = now();
  alcove_model *model;
  alcove_session *session;
  check(alcove_model_open_file(arguments[1], &model));
  const char *threads = getenv("LATENCY_THREADS");
  check(alcove_session_create_threaded(model, UINT64_MAX, threads == NULL ? 1 : (uint32_t)atoi(threads), &session));
  const uint64_t created = now();
  port_count = alcove_model_input_count(model);
  for (size_t i = 0; i < port_count; ++i) {
    check(alcove_model_input(model, i, &ports[i]));
    inputs[i] = read_input(count > 3 + (int)i ? arguments[3 + i] : NULL, port_bytes(&ports[i]));
  }
  const uint64_t read = now();
  call(session);
  const uint64_t first = now();
  /* A run allocates nothing, so this is what it takes; the table of times below is ours. */
  const long peak = peak_kib();
  const double seconds = atof(arguments[2]);
  uint64_t *times = malloc(MAX_CALLS * sizeof(*times));
  printf("{\"open_ns\": %llu, \"cold_ns\": %llu, \"medians_ns\": [", (unsigned long long)(created - opened),
         (unsigned long long)(created - opened + (first - read)));
  /* Calls of well under a microsecond are timed in groups, for the clock takes some 20 ns itself. */
  uint64_t start = now();
  call(session);
  const uint64_t one = now() - start;
  const size_t group = one < 5000 ? 100 : 1;
  double busy[REPEATS];
  for (int repeat = 0; repeat < REPEATS; ++repeat) {
    size_t calls = 0;
    const uint64_t begun = now(), working = worked();
    const uint64_t until = begun + (uint64_t)(seconds * 1e9 / REPEATS);
    do {
      start = now();
      for (size_t i = 0; i < group; ++i) call(session);
      times[calls++] = (now() - start) / group;
    } while (calls < MAX_CALLS && (calls < 5 || now() < until));
    busy[repeat] = (double)(worked() - working) / (double)(now() - begun);
    qsort(times, calls, sizeof(*times), by_size);
    printf("%s%llu", repeat == 0 ? "" : ", ", (unsigned long long)times[calls / 2]);
  }
  printf("], \"busy_cores\": [");
  for (int repeat = 0; repeat < REPEATS; ++repeat) printf("%s%.3f", repeat == 0 ? "" : ", ", busy[repeat]);
  printf("], \"peak_kib\": %ld}\n", peak);
  free(times);
  for (size_t i = 0; i < port_count; ++i) free(inputs[i]);
  alcove_session_close(session);
  alcove_model_close(model);
  return 0;
}
