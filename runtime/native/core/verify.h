// Verifies that bytes are a program: every check that stands between a file and a run; nothing can switch them off.
//
// The passes, in order.  What a pass has established, later passes and the executor rely on, and on nothing else.
//
//   1 framing     header, section table and their digest; sections in range, in order, aligned, without gaps, zero
//                 padding, no trailing bytes; the digests of PROGRAM and CERTIFICATE.  Afterwards nothing outside the
//                 private copies is read but weights.
//   2 tables      counts within their caps and adding up to the section's size; every record's unused bytes zero; strings
//                 printable UTF-8; tensors with known type, storage and layout, dimensions in [1, 2^31), sizes
//                 recomputed without overflow, constants one after the other in WEIGHTS, states likewise in a place of
//                 their own; expressions of earlier ones only; each symbol a dimension of an input.
//   3 order       ops read only constants, states, inputs and what an earlier op wrote; every arena tensor is written
//                 exactly once; every constant and state is read; a state has a constant to begin as and an arena tensor to
//                 become, both of its type and shape.
//   4 signatures  each op's arity, types, layouts, shapes and attributes by the op's own rule; indices from inside the
//                 program stay within the table they pick from; the operations of a run are within the op budget.  A program with
//                 symbols is judged at the bounds of each bucket here, and by its session again at the sizes of each run.
//   5 ports       names, types, labels.
//   6 plan        in each bucket: tensors that live at the same time share no byte of the arena, but for views and for an
//                 in-place op on its dying input.
//   7 ceiling     the memory ceiling in the header is what a session allocates for the largest bucket of any method.
//
// A file with a METHODS section holds several programs: framing comes first, then the records of that section (names), then
// passes 2 to 6 for each program, the first's first; constants lie one after the other through all of them, and states of one
// name are one state: of one type and shape, with one beginning.
//
// No byte of WEIGHTS can affect memory safety, so their digest is checked by verify_weights() and not here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/format.h"
#include "core/program.h"
#include "core/status.h"

namespace alcove {

// Private copies of header and section table, checked.
struct Framing {
  format::FileHeader header;
  format::SectionRecord program;
  format::SectionRecord certificate;  // size 0: none
  format::SectionRecord weights;      // size 0: none
  format::SectionRecord methods;      // size 0: none
};

class Constants;

struct Verified {
  Framing framing;
  std::vector<uint8_t> certificate;
  Methods methods;
};

// Runs all passes.  Reads [data, data + size) once, without the weights.  Time and memory are bounded by limits.h.
// Throws nothing but std::bad_alloc.
[[nodiscard]] Result<Verified> verify(const uint8_t* data, size_t size);

// The passes, for verify() alone.
[[nodiscard]] Status check_framing(const uint8_t* data, size_t size, Framing& framing);
[[nodiscard]] Status check_tables(Program& program, Constants& constants);
[[nodiscard]] Status check_order(const Program& program);
// `writers` as producers() gives them; adds up the `cost` of a run.  Allocates nothing.
[[nodiscard]] Status check_signatures(const Program& program, const std::vector<int32_t>& writers, uint64_t& cost);
[[nodiscard]] Status check_ports(const Program& program);
[[nodiscard]] Status check_plan(const Program& program);

// Index of the op that writes each tensor, -1 for constants and inputs.  Precondition: pass 3.
[[nodiscard]] std::vector<int32_t> producers(const Program& program);

// What a session keeps for a method's tensors, sizes and operators.  Precondition: pass 2.
[[nodiscard]] uint64_t table_bytes(const Program& program) noexcept;
// What a session keeps beside its arena.  Precondition: pass 2, states joined.
[[nodiscard]] uint64_t kept_bytes(const Methods& methods) noexcept;
// What a session allocates at most.  Precondition: pass 2, states joined.
[[nodiscard]] uint64_t ceiling_bytes(const Methods& methods) noexcept;

// Whether the WEIGHTS section has its digest, zeros between its constants and in the unused columns of panels.
[[nodiscard]] Status verify_weights(const uint8_t* data, const Framing& framing, const Methods& methods);

// Whether `text` is UTF-8 without control characters (U+0000 to U+001F, U+007F to U+009F), so that errors may quote it.
[[nodiscard]] bool is_printable_utf8(std::string_view text) noexcept;

}  // namespace alcove
