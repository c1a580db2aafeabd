// The two halves of pass 2: tables.cpp reads tensors, ops and ports; size_tables.cpp what sessions keep and size.
#pragma once

#include "core/checked.h"
#include "core/cursor.h"

namespace alcove {

// Of states, symbols, expressions, buckets and places, without their strings.  Precondition: counts within their caps.
[[nodiscard]] Checked size_tables_bytes(const format::ProgramHeader& header);

// Precondition: tensors and input ports are read.
[[nodiscard]] Status read_size_tables(Program& program, Cursor& cursor, const format::ProgramHeader& header);

}  // namespace alcove
