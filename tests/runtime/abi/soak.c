/* A host that goes on predicting while the model behind it is replaced again and again, through alcove.h alone.
 *
 *   soak SLOT FIRST.alc SECOND.alc TEXT SWAPS   prints one "name value" a line; both models take one text
 *
 * Two threads run sessions without a pause. A third writes the other model beside the slot, renames it over, opens it, and closes the old
 * one while its sessions still run; it goes on when both threads have answered since. Every answer must be, bit for bit, that of the model
 * whose session gave it.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alcove.h"

enum { kThreads = 2, kAnswerBytes = 4096 };

static _Atomic long failures = 0;

static void expect(int is_right, const char* what) {
  if (is_right) return;
  ++failures;
  printf("failed %s (%s: %s)\n", what, alcove_last_error_code(), alcove_last_error());
}

/* -- a host's memory, counted ------------------------------------------------------------------------------------------------- */

static _Atomic long blocks = 0;

static void* take(void* context, size_t bytes, size_t alignment) {
  void* memory = NULL;
  (void)context;
  if (posix_memalign(&memory, alignment, bytes) != 0) return NULL;
  memset(memory, 0xA5, bytes);
  ++blocks;
  return memory;
}

static void give(void* context, void* memory, size_t bytes) {
  (void)context;
  memset(memory, 0x5A, bytes);
  --blocks;
  free(memory);
}

static const alcove_allocator kAllocator = {sizeof(kAllocator), NULL, take, give};

/* -- answers -------------------------------------------------------------------------------------------------------------------- */

static const char* text;
static unsigned char answers[2][kAnswerBytes];
static size_t answer_bytes[2];

static size_t dtype_bytes(alcove_dtype dtype) {
  return dtype == ALCOVE_I64 ? 8 : dtype == ALCOVE_F32 || dtype == ALCOVE_I32 ? 4 : 1;
}

/* Runs the session; returns how many bytes its first output has, 0 where it failed. */
static size_t run(alcove_session* session, alcove_dtype dtype, unsigned char* all) {
  const void* data = NULL;
  uint64_t extent = 0, dims[ALCOVE_MAX_RANK];
  size_t rank = 0, bytes = dtype_bytes(dtype);
  if (alcove_session_set_text(session, 0, text, strlen(text)) != ALCOVE_OK || alcove_session_run(session) != ALCOVE_OK ||
      alcove_session_output(session, 0, &data, &extent) != ALCOVE_OK ||
      alcove_session_output_dims(session, 0, dims, &rank) != ALCOVE_OK) {
    return 0;
  }
  for (size_t d = 0; d < rank; ++d) bytes *= dims[d];
  if (bytes > kAnswerBytes) bytes = kAnswerBytes;
  memcpy(all, data, bytes);
  return bytes;
}

static alcove_dtype dtype_of(const alcove_model* model) {
  alcove_port port;
  expect(alcove_model_output(model, 0, &port) == ALCOVE_OK, "the first output");
  return port.dtype;
}

/* -- the slot and what is in it -------------------------------------------------------------------------------------------------- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static alcove_model* current = NULL;
static int which = 0;
static long serial = 0;
static int is_over = 0;
static _Atomic long runs = 0, answered[kThreads];

static alcove_model* open_model(const char* path) {
  const alcove_model_options options = {sizeof(options), &kAllocator};
  alcove_model* model = NULL;
  expect(alcove_model_open_file_with(path, &options, &model) == ALCOVE_OK, "open");
  return model;
}

/* As an installer does: beside it, read-only, then renamed. */
static void install(const char* from, const char* slot) {
  char beside[4096], data[65536];
  size_t count;
  snprintf(beside, sizeof(beside), "%s.new", slot);
  FILE *source = fopen(from, "rb"), *made = fopen(beside, "wb");
  if (source == NULL || made == NULL) {
    expect(0, "files");
    exit(1);
  }
  while ((count = fread(data, 1, sizeof(data), source)) > 0) expect(fwrite(data, 1, count, made) == count, "write");
  fclose(source);
  fclose(made);
  expect(chmod(beside, 0444) == 0 && rename(beside, slot) == 0, "install");
}

static void* predict(void* pointer) {
  const alcove_session_options own = {sizeof(own), 1, 0, &kAllocator};
  _Atomic long* mine = pointer;
  alcove_session* session = NULL;
  alcove_dtype dtype = ALCOVE_F32;
  unsigned char seen[kAnswerBytes];
  long known = -1;
  int model_is = 0;
  for (;;) {
    pthread_mutex_lock(&mutex);
    if (is_over) break;
    if (known != serial) { /* the model is open as long as the mutex is held; its session outlives it */
      alcove_session* next = NULL;
      expect(alcove_session_create_with(current, &own, &next) == ALCOVE_OK, "a session of the new model");
      dtype = dtype_of(current);
      alcove_session_close(session);
      session = next;
      known = serial;
      model_is = which;
    }
    pthread_mutex_unlock(&mutex);
    const size_t bytes = run(session, dtype, seen);
    expect(bytes == answer_bytes[model_is] && memcmp(seen, answers[model_is], bytes) == 0, "an answer between swaps");
    ++runs;
    *mine = known;
  }
  pthread_mutex_unlock(&mutex);
  alcove_session_close(session);
  return NULL;
}

/* Returns how many descriptors are open, and how often the slot is mapped. */
static int held(const char* slot, int* maps) {
  char line[8192];
  int count = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (readdir(folder) != NULL) ++count;
  closedir(folder);
  FILE* mapped = fopen("/proc/self/maps", "r");
  *maps = 0;
  while (fgets(line, sizeof(line), mapped) != NULL) *maps += strstr(line, slot) != NULL;
  fclose(mapped);
  return count;
}

int main(int count, char** arguments) {
  if (count != 6) return 2;
  const char *slot = arguments[1], *files[2] = {arguments[2], arguments[3]};
  const long swaps = atol(arguments[5]);
  pthread_t threads[kThreads];
  int maps = 0, maps_before = 0;
  text = arguments[4];
  for (int i = 0; i < 2; ++i) {
    alcove_session* session = NULL;
    alcove_model* model = open_model(files[i]);
    expect(alcove_session_create(model, &session) == ALCOVE_OK, "create");
    answer_bytes[i] = run(session, dtype_of(model), answers[i]);
    expect(answer_bytes[i] > 0, "an answer of each model");
    alcove_session_close(session);
    alcove_model_close(model);
  }
  expect(answer_bytes[0] != answer_bytes[1] || memcmp(answers[0], answers[1], answer_bytes[0]) != 0, "models that answer differently");
  const int held_before = held(slot, &maps_before);

  install(files[0], slot);
  current = open_model(slot);
  for (int i = 0; i < kThreads; ++i) answered[i] = -1;
  for (int i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, predict, &answered[i]);
  for (long swap = 1; swap <= swaps; ++swap) {
    install(files[swap % 2], slot);
    alcove_model* next = open_model(slot);
    pthread_mutex_lock(&mutex);
    alcove_model* old = current;
    current = next;
    which = (int)(swap % 2);
    serial = swap;
    pthread_mutex_unlock(&mutex);
    alcove_model_close(old);
    for (int i = 0; i < kThreads; ++i) {
      while (answered[i] < swap) usleep(50);
    }
  }
  pthread_mutex_lock(&mutex);
  is_over = 1;
  pthread_mutex_unlock(&mutex);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  alcove_model_close(current);
  expect(blocks == 0, "all memory is given back");
  expect(held(slot, &maps) == held_before && maps == maps_before, "no descriptor and no mapping is left");
  printf("swaps %ld\nruns %ld\nfailures %ld\n", swaps, (long)runs, (long)failures);
  return failures == 0 ? 0 : 1;
}
