// Resolves a program's sizes to numbers.  Expressions are evaluated for the sizes of the inputs, and dimensions, attributes
// and places are written into a copy of the program, which the rules of the operators then judge as any other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/program.h"
#include "core/status.h"

namespace alcove {

// What bind() writes into: tensors, ops and inputs of `program`; names point into it still.  Throws std::bad_alloc.
[[nodiscard]] Program copy_to_bind(const Program& program);

// The first bucket, by rising arena, that holds these sizes.  Precondition: each within its symbol's bounds.
[[nodiscard]] size_t bucket_for(const Program& program, const uint32_t* sizes) noexcept;

// Sets `values`, one for each expression.  Fails if one overflows or divides by less than 1.
[[nodiscard]] Status evaluate(const Program& program, const uint32_t* sizes, int64_t* values) noexcept;

// Sets the dimensions of a tensor at the symbols' least and greatest values, for people; those that can't be had are 1.
void dims_range(const Program& program, const Tensor& tensor, uint64_t* smallest, uint64_t* largest);

// Writes the sizes of this run into `bound`, which copy_to_bind() made; `values` has room for every expression.  Fails if a
// dimension is out of range or a tensor larger than its place.  Allocates nothing.
[[nodiscard]] Status bind(const Program& program, size_t bucket, const uint32_t* sizes, int64_t* values,
                          Program& bound) noexcept;

}  // namespace alcove
