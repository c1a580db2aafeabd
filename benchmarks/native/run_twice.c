/* Runs a program twice with zeros for inputs: run_twice MODEL.  For tools that count instructions: the second run is the one
 * that counted_run() makes. */
#define _GNU_SOURCE
#include "ports.h"

static void set_inputs(const alcove_model *model, alcove_session *session) {
  for (size_t i = 0; i < alcove_model_input_count(model); ++i) {
    alcove_port port;
    check(alcove_model_input(model, i, &port));
    void *zeros = calloc(1, port_bytes(&port));
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
