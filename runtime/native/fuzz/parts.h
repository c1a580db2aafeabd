// Takes a program apart into its records, whatever they say, and puts them together with right counts, offsets and
// digests, so that a change of one record gets past the framing and meets the check that it is for.
//
// An input of the targets that run something is a program followed by bytes of its own: what inputs hold, what is called.  The
// header's file size says where the program ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/format.h"

namespace alcove::fuzz {

struct Parts {
  format::FileHeader header = {};
  format::ProgramHeader program = {};
  std::vector<format::TensorRecord> tensors;
  std::vector<format::OpRecord> ops;
  std::vector<format::PortRecord> inputs, outputs;
  std::vector<uint32_t> labels;
  std::vector<format::StateRecord> states;
  std::vector<format::SymbolRecord> symbols;
  std::vector<format::ExpressionRecord> expressions;
  std::vector<format::BucketRecord> buckets;
  std::vector<format::PlaceRecord> places;
  std::vector<uint8_t> strings, certificate, weights, methods, tail;  // of METHODS the whole section
};

// Bytes of the program at the start of an input; all of them, if the header says nothing better.
[[nodiscard]] size_t program_bytes(const uint8_t* data, size_t size);

// Whether `data` is framed well enough to be taken apart.  What `parts` held before is gone; its memory is used again.
[[nodiscard]] bool split(const uint8_t* data, size_t size, Parts& parts);

// Bytes of the program and its tail, put together.
[[nodiscard]] size_t composed_bytes(const Parts& parts);

// Writes the program and its tail, composed_bytes() in all.  Counts are those of the vectors.
void compose(const Parts& parts, uint8_t* out);

// Makes right what follows from the rest: sizes from shapes, places of constants and states, the arena's size, the length of the
// strings and the memory ceiling; with `replans` arena tensors lie one after the other.
void repair(Parts& parts, bool replans);

// Makes the digests of the header and of each section that lies within the program right.
void reseal(uint8_t* data, size_t size);

}  // namespace alcove::fuzz
