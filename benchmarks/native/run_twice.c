/* Runs a program twice with zeros for inputs: run_twice MODEL.  For tools that count instructions: the second run is the one
 * that counted_run() makes. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "alcove.h"

enum { MAX_PORTS = 64 };

static void check(alcove_status status) {
  if (status == ALCOVE_OK) return;
  fprintf(stderr, "run_twice: %s\n", alcove_last_error());
  exit(1);
}

static size_t element_bytes(alcove_dtype dtype) {
  return dtype == ALCOVE_F32 || dtype == ALCOVE_I32 ? 4 : dtype == ALCOVE_I64 ? 8 : 1;
}

static void set_inputs(const alcove_model *model, alcove_session *session) {
  for (size_t i = 0; i < alcove_model_input_count(model); ++i) {
    alcove_port port;
    check(alcove_model_input(model, i, &port));
    size_t size = element_bytes(port.dtype);
    for (uint32_t d = 0; d < port.rank; ++d) size *= port.dims[d];
    void *zeros = calloc(1, size);
    check(alcove_session_set_tensor(session, i, port.dtype, port.dims, port.rank, zeros));
    free(zeros);
  }
}

__attribute__((noinline)) void counted_run(alcove_session *session);
void counted_run(alcove_session *session) { check(alcove_session_run(session)); }

int main(int count, char **arguments) {
  if (count != 2) {
    fprintf(stderr, "usage: run_twice MODEL\n");
    return 2;
  }
  alcove_model *model;
  alcove_session *session;
  check(alcove_model_open_file(arguments[1], &model));
  check(alcove_session_create(model, &session));
  set_inputs(model, session);
  check(alcove_session_run(session));
  set_inputs(model, session);
  counted_run(session);
  alcove_session_close(session);
  alcove_model_close(model);
  return 0;
}
