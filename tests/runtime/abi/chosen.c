/* Runs a program on one text and prints the bytes of its outputs, or why it was refused.
 *
 *   chosen MODEL.alc TEXT   prints "outputs XX XX ...", "refused STATUS CODE WHY", or "no text" of a program that takes other inputs
 */
#include <stdio.h>
#include <string.h>

#include "alcove.h"

int main(int count, char** arguments) {
  static const size_t bytes_of[] = {0, 4, 1, 4, 8, 1, 1, 0};
  alcove_model* model = NULL;
  alcove_session* session = NULL;
  alcove_port port;
  if (count != 3) return 2;
  const alcove_status status = alcove_model_open_file(arguments[1], &model);
  if (status != ALCOVE_OK) {
    printf("refused %d %s %s\n", (int)status, alcove_last_error_code(), alcove_last_error());
    return 0;
  }
  if (alcove_model_input_count(model) != 1 || alcove_model_input(model, 0, &port) != ALCOVE_OK || port.dtype != ALCOVE_TEXT) {
    printf("no text\n");
    return 0;
  }
  if (alcove_session_create(model, &session) != ALCOVE_OK) return 3;
  if (alcove_session_set_text(session, 0, arguments[2], strlen(arguments[2])) != ALCOVE_OK) return 4;
  if (alcove_session_run(session) != ALCOVE_OK) return 5;
  printf("outputs");
  for (size_t i = 0; i < alcove_model_output_count(model); ++i) {
    const void* data = NULL;
    uint64_t extent = 0, dims[ALCOVE_MAX_RANK];
    size_t rank = 0, bytes;
    if (alcove_model_output(model, i, &port) != ALCOVE_OK) return 6;
    if (alcove_session_output(session, i, &data, &extent) != ALCOVE_OK) return 7;
    if (alcove_session_output_dims(session, i, dims, &rank) != ALCOVE_OK) return 8;
    bytes = bytes_of[port.dtype];
    for (size_t d = 0; d < rank; ++d) bytes *= dims[d];
    for (size_t b = 0; b < bytes; ++b) printf(" %02x", ((const unsigned char*)data)[b]);
  }
  printf("\n");
  alcove_session_close(session);
  alcove_model_close(model);
  return 0;
}
