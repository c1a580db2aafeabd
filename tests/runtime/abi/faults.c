/* What a host's allocator, file system, signals and threads can do to the runtime, through alcove.h alone.
 *
 *   faults MODEL.alc TEXT RUNS   prints one "name value" a line; MODEL takes one text
 *
 * Every fault is tried at every point: the nth allocation fails for n from 0 until nothing asks for it; the nth read of a file fails, is
 * interrupted or is short.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alcove.h"

static int failures = 0;

static void expect(int is_right, const char* what) {
  if (is_right) return;
  ++failures;
  printf("failed %s (%s: %s)\n", what, alcove_last_error_code(), alcove_last_error());
}

/* -- an allocator that counts, and fails when it is told to ---------------------------------------------------------------- */

typedef struct Heap {
  long asked, blocks, fails_at; /* -1: never */
  size_t bytes;
} Heap;

static void* take(void* context, size_t bytes, size_t alignment) {
  Heap* heap = context;
  void* memory = NULL;
  if (heap->asked++ == heap->fails_at) return NULL;
  if (posix_memalign(&memory, alignment, bytes) != 0) return NULL;
  memset(memory, 0xA5, bytes); /* nothing may rely on zeros */
  heap->blocks += 1;
  heap->bytes += bytes;
  return memory;
}

static void give(void* context, void* memory, size_t bytes) {
  Heap* heap = context;
  memset(memory, 0x5A, bytes);
  heap->blocks -= 1;
  heap->bytes -= bytes;
  free(memory);
}

static long system_allocations = 0;
#ifndef PLAIN_HEAP /* or a tool that looks for errors has its own */
extern void* __libc_malloc(size_t size);
void* malloc(size_t size) {
  ++system_allocations;
  return __libc_malloc(size);
}
#endif

/* -- reads that are cut short, interrupted or refused ----------------------------------------------------------------------- */

enum { WHOLE, ONE_BYTE, INTERRUPTED, REFUSED, SHRUNK };
static int read_fault = WHOLE;
static long reads = 0, read_fails_at = -1;

ssize_t read(int descriptor, void* data, size_t size) {
  static ssize_t (*real)(int, void*, size_t) = NULL;
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, "read");
  const long now = reads++;
  if (read_fault == ONE_BYTE) return real(descriptor, data, size > 997 ? 997 : size);
  if (now == read_fails_at) {
    if (read_fault == SHRUNK) return 0;
    errno = read_fault == INTERRUPTED ? EINTR : EIO;
    return -1;
  }
  if (read_fails_at >= 0) size = size > 997 ? 997 : size; /* so that there are many of them */
  return real(descriptor, data, size);
}

/* -- the model ---------------------------------------------------------------------------------------------------------------- */

static const char* path;
static const char* text;
static unsigned char answer[4096];
static size_t answer_bytes = 0;

static size_t dtype_bytes(alcove_dtype dtype) {
  return dtype == ALCOVE_I64 ? 8 : dtype == ALCOVE_F32 || dtype == ALCOVE_I32 ? 4 : 1;
}

/* Copies all outputs; the greatest that fits. */
static size_t outputs_of(const alcove_model* model, const alcove_session* session, unsigned char* all, size_t room) {
  size_t used = 0;
  for (size_t i = 0; i < alcove_model_output_count(model); ++i) {
    alcove_port port;
    const void* data = NULL;
    uint64_t extent = 0, dims[ALCOVE_MAX_RANK];
    size_t rank = 0, bytes;
    if (alcove_model_output(model, i, &port) != ALCOVE_OK || alcove_session_output(session, i, &data, &extent) != ALCOVE_OK ||
        alcove_session_output_dims(session, i, dims, &rank) != ALCOVE_OK) {
      return 0;
    }
    bytes = dtype_bytes(port.dtype);
    for (size_t d = 0; d < rank; ++d) bytes *= dims[d];
    if (bytes > room - used) bytes = room - used;
    memcpy(all + used, data, bytes);
    used += bytes;
  }
  return used;
}

static int gives_the_answer(const alcove_model* model, alcove_session* session) {
  unsigned char seen[sizeof(answer)];
  if (alcove_session_set_text(session, 0, text, strlen(text)) != ALCOVE_OK) return 0;
  if (alcove_session_run(session) != ALCOVE_OK) return 0;
  const size_t bytes = outputs_of(model, session, seen, sizeof(seen));
  return bytes == answer_bytes && memcmp(seen, answer, bytes) == 0;
}

/* -- the nth allocation -------------------------------------------------------------------------------------------------------- */

static void fail_every_allocation(void) {
  long points[2] = {0, 0};
  for (int from_file = 0; from_file < 2; ++from_file) {
    unsigned char* bytes = NULL;
    size_t size = 0;
    FILE* file = fopen(path, "rb");
    fseek(file, 0, SEEK_END);
    size = (size_t)ftell(file);
    rewind(file);
    bytes = malloc(size);
    expect(fread(bytes, 1, size, file) == size, "read of the model");
    fclose(file);
    for (long n = 0;; ++n) {
      Heap heap = {0, 0, n, 0};
      const alcove_allocator allocator = {sizeof(allocator), &heap, take, give};
      const alcove_model_options options = {sizeof(options), &allocator};
      const alcove_session_options own = {sizeof(own), 2, 0, &allocator};
      alcove_model* model = NULL;
      alcove_session* session = NULL;
      const long before = system_allocations;
      alcove_status status = from_file ? alcove_model_open_file_with(path, &options, &model)
                                       : alcove_model_open_bytes_with(bytes, size, &options, &model);
      if (status == ALCOVE_OK) {
        status = alcove_session_create_with(model, &own, &session);
        if (status == ALCOVE_OK) expect(gives_the_answer(model, session), "answer of a session with its own memory");
        if (status == ALCOVE_OK) expect(heap.bytes > alcove_model_memory_ceiling(model), "the session's memory is the host's");
      }
      expect((status == ALCOVE_OK) == (heap.asked <= n), "the call fails exactly if memory did");
      if (status != ALCOVE_OK) {
        expect(status == ALCOVE_SYSTEM && strcmp(alcove_last_error_code(), "out_of_memory") == 0, "status of no memory");
        expect(session == NULL, "no session without memory");
      }
      alcove_session_close(session);
      alcove_model_close(model);
      expect(heap.blocks == 0 && heap.bytes == 0, "all memory is given back");
      if (heap.asked <= n) {
        expect(system_allocations - before <= 2, "a host's allocator is the only one but for threads"); /* pthread_create's own */
        break;
      }
      ++points[from_file];
    }
    free(bytes);
  }
  printf("allocations %ld %ld\n", points[0], points[1]);
}

/* The session outlives its model, and each has a heap of its own. */
static void mix_allocators(void) {
  Heap first = {0, 0, -1, 0}, second = {0, 0, -1, 0};
  const alcove_allocator one = {sizeof(one), &first, take, give}, two = {sizeof(two), &second, take, give};
  const alcove_model_options options = {sizeof(options), &one};
  const alcove_session_options own = {sizeof(own), 0, 0, &two};
  alcove_model* model = NULL;
  alcove_session *session = NULL, *plain = NULL;
  expect(alcove_model_open_file_with(path, &options, &model) == ALCOVE_OK, "open with one");
  expect(alcove_session_create_with(model, &own, &session) == ALCOVE_OK, "create with two");
  expect(alcove_session_create(model, &plain) == ALCOVE_OK, "create with the system's");
  expect(gives_the_answer(model, session) && gives_the_answer(model, plain), "answers with two heaps");
  alcove_model_close(model);
  alcove_session_close(plain);
  expect(first.blocks > 0 && second.blocks > 0, "the model lives with its session");
  alcove_session_close(session);
  expect(first.blocks == 0 && second.blocks == 0, "both heaps are empty");
}

static void give_wrong_options(void) {
  Heap heap = {0, 0, -1, 0};
  struct {
    alcove_session_options known;
    uint64_t later;
  } longer = {{sizeof(longer), 1, 0, NULL}, 0};
  const alcove_allocator lacking = {sizeof(lacking), &heap, take, NULL}, unsized = {0, &heap, take, give};
  alcove_model_options options = {sizeof(options), &lacking};
  alcove_session_options own = {sizeof(own), 17, 0, NULL};
  alcove_model* model = NULL;
  alcove_session* session = NULL;
  expect(alcove_model_open_file_with(path, &options, &model) == ALCOVE_BAD_CALL && model == NULL, "an allocator without release");
  options.allocator = &unsized;
  expect(alcove_model_open_file_with(path, &options, &model) == ALCOVE_BAD_CALL, "an allocator without a size");
  options.struct_bytes = 0;
  expect(alcove_model_open_file_with(path, &options, &model) == ALCOVE_BAD_CALL, "options without a size");
  expect(strcmp(alcove_last_error_code(), "bad_call") == 0, "code of a bad call");
  options.struct_bytes = 4; /* a host that knows no member */
  expect(alcove_model_open_file_with(path, &options, &model) == ALCOVE_OK, "options of a first version");
  expect(alcove_session_create_with(model, &own, &session) == ALCOVE_BAD_INPUT, "17 threads");
  expect(strcmp(alcove_last_error_code(), "thread_count") == 0, "code of 17 threads");
  own.struct_bytes = 4;
  expect(alcove_session_create_with(model, &own, &session) == ALCOVE_OK, "17 threads that are not read");
  alcove_session_close(session);
  expect(alcove_session_create_with(model, &longer.known, &session) == ALCOVE_OK, "options of a later version, unused");
  alcove_session_close(session);
  longer.later = 1;
  expect(alcove_session_create_with(model, &longer.known, &session) == ALCOVE_BAD_CALL && session == NULL, "options of a later version");
  own.struct_bytes = sizeof(own);
  own.threads = 1;
  own.memory_limit_bytes = 64;
  expect(alcove_session_create_with(model, &own, &session) == ALCOVE_BAD_INPUT, "a limit of 64 bytes");
  alcove_model_close(model);
}

/* -- files ------------------------------------------------------------------------------------------------------------------------ */

static void read_badly(void) {
  alcove_model* model = NULL;
  alcove_session* session = NULL;
  long points = 0;
  expect(chmod(path, 0644) == 0, "chmod"); /* what its owner may write is read, not mapped */
  read_fault = ONE_BYTE;
  expect(alcove_model_open_file(path, &model) == ALCOVE_OK, "open by short reads");
  expect(alcove_session_create(model, &session) == ALCOVE_OK && gives_the_answer(model, session), "answer by short reads");
  alcove_session_close(session);
  alcove_model_close(model);
  for (int fault = INTERRUPTED; fault <= SHRUNK; ++fault) {
    for (long n = 0;; ++n) {
      read_fault = fault;
      read_fails_at = n;
      reads = 0;
      const alcove_status status = alcove_model_open_file(path, &model);
      const int was_reached = reads > n;
      const alcove_status wanted = !was_reached || fault == INTERRUPTED ? ALCOVE_OK : fault == REFUSED ? ALCOVE_SYSTEM : ALCOVE_BAD_PROGRAM;
      /* What is missing at the end only is the read that would say that there is no more. */
      expect(status == wanted, "status of a read that failed");
      expect((model != NULL) == (status == ALCOVE_OK), "a model only where it is whole");
      alcove_model_close(model);
      if (!was_reached) break;
      ++points;
    }
  }
  read_fault = WHOLE;
  read_fails_at = -1;
  printf("reads %ld\n", points);
}

/* Renamed over and removed while it is mapped, as slots are replaced; the model that is open goes on. */
static void replace_while_mapped(void) {
  char copy[4096], other[4096 + 8];
  snprintf(copy, sizeof(copy), "%s.slot", path);
  snprintf(other, sizeof(other), "%s.new", copy);
  char command[16384];
  snprintf(command, sizeof(command), "cp '%s' '%s' && chmod 444 '%s' && printf x > '%s'", path, copy, copy, other);
  expect(system(command) == 0, "copy");
  alcove_model* model = NULL;
  alcove_session* session = NULL;
  expect(alcove_model_open_file(copy, &model) == ALCOVE_OK, "open a slot");
  expect(alcove_session_create(model, &session) == ALCOVE_OK, "create");
  expect(rename(other, copy) == 0 && gives_the_answer(model, session), "answer after a rename");
  expect(unlink(copy) == 0 && gives_the_answer(model, session), "answer after a removal");
  expect(alcove_model_verify_weights(model) == ALCOVE_OK, "weights of a file that is gone");
  alcove_session_close(session);
  alcove_model_close(model);
}

/* -- signals, forks, threads ----------------------------------------------------------------------------------------------------- */

static volatile sig_atomic_t signals = 0;
static void count_signal(int number) {
  (void)number;
  ++signals;
}

static void interrupt(const alcove_model* model, alcove_session* session) {
  struct sigaction action = {.sa_handler = count_signal};
  const struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, &often, NULL);
  for (int i = 0; i < 1000000 && signals < 50; ++i) expect(gives_the_answer(model, session), "answer between signals");
  setitimer(ITIMER_REAL, &never, NULL);
  printf("signals %d\n", signals >= 50);
}

static void fork_with_a_session(const alcove_model* model, alcove_session* session) {
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    alcove_session* own = NULL;
    const int is_right = gives_the_answer(model, session) && alcove_session_create(model, &own) == ALCOVE_OK &&
                         gives_the_answer(model, own);
    alcove_session_close(own);
    alcove_session_close(session);
    _exit(is_right ? 0 : 1);
  }
  int status = 1;
  expect(waitpid(child, &status, 0) == child && status == 0, "the child of a fork");
  expect(gives_the_answer(model, session), "the parent of a fork");
}

typedef struct Shared {
  const alcove_model* model;
  alcove_session* session;
  pthread_barrier_t barrier;
  _Atomic long runs, refused, others;
} Shared;

/* Both threads run the one session until one was refused; whoever holds it has its answer. */
static void* use_together(void* pointer) {
  Shared* shared = pointer;
  pthread_barrier_wait(&shared->barrier);
  for (int i = 0; i < 200000 && shared->refused == 0; ++i) {
    alcove_status status = alcove_session_set_text(shared->session, 0, text, strlen(text));
    if (status == ALCOVE_OK) status = alcove_session_run(shared->session);
    if (status == ALCOVE_OK) {
      ++shared->runs;
    } else if (status == ALCOVE_BUSY && strcmp(alcove_last_error_code(), "session_busy") == 0) {
      ++shared->refused;
    } else if (strcmp(alcove_last_error_code(), "input_count") != 0) { /* the other's run has used up the input */
      ++shared->others;
    }
  }
  return NULL;
}

static void share_a_session(const alcove_model* model, alcove_session* session) {
  Shared shared = {.model = model, .session = session};
  pthread_t threads[2];
  pthread_barrier_init(&shared.barrier, NULL, 2);
  for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, use_together, &shared);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&shared.barrier);
  expect(shared.refused > 0 && shared.others == 0, "a second thread gets ALCOVE_BUSY and nothing else");
  expect(gives_the_answer(model, session), "the session works afterwards");
}

/* -- many -------------------------------------------------------------------------------------------------------------------------- */

static void make_a_thousand_sessions(const alcove_model* model) {
  enum { kSessions = 1000 };
  static alcove_session* sessions[kSessions];
  Heap heap = {0, 0, -1, 0};
  const alcove_allocator allocator = {sizeof(allocator), &heap, take, give};
  const alcove_session_options own = {sizeof(own), 0, 0, &allocator};
  for (int i = 0; i < kSessions; ++i) expect(alcove_session_create_with(model, &own, &sessions[i]) == ALCOVE_OK, "one of 1000");
  const size_t each = heap.bytes / kSessions;
  for (int i = kSessions - 1; i >= 0; --i) expect(gives_the_answer(model, sessions[i]), "answer of one of 1000");
  for (int i = 0; i < kSessions; ++i) alcove_session_close(sessions[i]);
  expect(heap.blocks == 0, "1000 sessions leave nothing");
  printf("session_bytes %zu %llu\n", each, (unsigned long long)alcove_model_memory_ceiling(model));
}

static void run_for_long(const alcove_model* model, alcove_session* session, Heap* heap, long runs) {
  const long asked = heap->asked, system_before = system_allocations;
  for (long i = 0; i < runs; ++i) {
    if (alcove_session_set_text(session, 0, text, strlen(text)) != ALCOVE_OK || alcove_session_run(session) != ALCOVE_OK) {
      expect(0, "one of many runs");
      break;
    }
  }
  expect(gives_the_answer(model, session), "answer after many runs");
  printf("allocations_in_runs %ld\n", heap->asked - asked + system_allocations - system_before);
}

int main(int count, char** arguments) {
  Heap heap = {0, 0, -1, 0};
  const alcove_allocator allocator = {sizeof(allocator), &heap, take, give};
  const alcove_model_options options = {sizeof(options), &allocator};
  const alcove_session_options own = {sizeof(own), 0, 0, &allocator};
  alcove_model* model = NULL;
  alcove_session* session = NULL;
  if (count != 4) return 2;
  path = arguments[1];
  text = arguments[2];
  expect(strcmp(alcove_last_error_code(), "ok") == 0, "code before any failure");
  expect(alcove_model_open_file_with(path, &options, &model) == ALCOVE_OK, "open");
  expect(alcove_session_create_with(model, &own, &session) == ALCOVE_OK, "create");
  if (session == NULL) return 1;
  expect(alcove_session_set_text(session, 0, text, strlen(text)) == ALCOVE_OK && alcove_session_run(session) == ALCOVE_OK, "run");
  answer_bytes = outputs_of(model, session, answer, sizeof(answer));
  expect(answer_bytes > 0, "an answer");
  interrupt(model, session);
  fork_with_a_session(model, session);
  share_a_session(model, session);
  make_a_thousand_sessions(model);
  run_for_long(model, session, &heap, atol(arguments[3]));
  alcove_session_close(session);
  alcove_model_close(model);
  expect(heap.blocks == 0, "nothing is left");
  mix_allocators();
  give_wrong_options();
  fail_every_allocation();
  read_badly();
  replace_while_mapped();
  printf("failures %d\n", failures);
  return failures == 0 ? 0 : 1;
}
