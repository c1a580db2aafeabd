// Reads the entry points of a file, and finds what they share.
#pragma once

#include "core/program.h"
#include "core/status.h"

namespace alcove {

// Sets the methods of the METHODS section, which is in `methods.bytes`: names, and the bytes of all programs but the first's.
// One method, if there is no such section.
[[nodiscard]] Status read_methods(Methods& methods);

// Sets the states that a session keeps: one for each name, or one for each record if there is one method.  Precondition: passes
// 2 and 3 for all methods.
[[nodiscard]] Status join_states(Methods& methods);

// Sets where each constant of 16 bits is once it is widened, if an operator or a state needs it as float32.  Precondition: pass 2 for
// all methods.
[[nodiscard]] Status place_widened(Methods& methods);

}  // namespace alcove
