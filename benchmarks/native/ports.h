/* What the programs here share: how a failed call ends them, and how large an input is.  Define _GNU_SOURCE first. */
#ifndef ALCOVE_BENCHMARKS_PORTS_H
#define ALCOVE_BENCHMARKS_PORTS_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "alcove.h"

static void check(alcove_status status) {
  if (status == ALCOVE_OK) return;
  fprintf(stderr, "%s: %s\n", program_invocation_short_name, alcove_last_error());
  exit(1);
}

/* The bytes of an input at its greatest size. */
static size_t port_bytes(const alcove_port *port) {
  size_t size = port->dtype == ALCOVE_F32 || port->dtype == ALCOVE_I32 ? 4 : port->dtype == ALCOVE_I64 ? 8 : 1;
  for (uint32_t d = 0; d < port->rank; ++d) size *= port->dims[d];
  return size;
}

#endif
