/* Runs a program for the plugin that counts: run_counted MODEL TIMES [INPUT.bin ...].  After a first run, getppid() stands before
 * and after TIMES runs; a run sets the inputs, as a caller must.  Without files inputs are zeros. */
#define _GNU_SOURCE
#include <unistd.h>

#include "ports.h"

enum { MAX_PORTS = 64 };

static alcove_port ports[MAX_PORTS];
static void *inputs[MAX_PORTS];
static size_t port_count;

static void *read_input(const char *path, size_t size) {
  void *data = calloc(1, size);
  FILE *file = path == NULL ? NULL : fopen(path, "rb");
  if (data == NULL || (path != NULL && (file == NULL || fread(data, 1, size, file) != size))) {
    fprintf(stderr, "run_counted: %s has not the %zu bytes of its input\n", path == NULL ? "memory" : path, size);
    exit(1);
  }
  if (file != NULL) fclose(file);
  return data;
}

static void call(alcove_session *session) {
  for (size_t i = 0; i < port_count; ++i) {
    check(alcove_session_set_tensor(session, i, ports[i].dtype, ports[i].dims, ports[i].rank, inputs[i]));
  }
  check(alcove_session_run(session));
}

int main(int count, char **arguments) {
  if (count < 3) {
    fprintf(stderr, "usage: run_counted MODEL TIMES [INPUT.bin ...]\n");
    return 2;
  }
  alcove_model *model;
  alcove_session *session;
  check(alcove_model_open_file(arguments[1], &model));
  check(alcove_session_create(model, &session));
  port_count = alcove_model_input_count(model);
  for (size_t i = 0; i < port_count; ++i) {
    check(alcove_model_input(model, i, &ports[i]));
    inputs[i] = read_input(count > 3 + (int)i ? arguments[3 + i] : NULL, port_bytes(&ports[i]));
  }
  call(session);
  getppid();
  for (int i = atoi(arguments[2]); i > 0; --i) call(session);
  getppid();
  for (size_t i = 0; i < port_count; ++i) free(inputs[i]);
  alcove_session_close(session);
  alcove_model_close(model);
  return 0;
}
