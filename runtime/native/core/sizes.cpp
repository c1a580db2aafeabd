#include "core/sizes.h"

#include <cinttypes>
#include <cstring>

#include "core/checked.h"

namespace alcove {

namespace {

// False: overflow, or a division by less than 1.
bool combine(ExpressionKind kind, int64_t a, int64_t b, int64_t& result) noexcept {
  switch (kind) {
    case ExpressionKind::add: return !__builtin_add_overflow(a, b, &result);
    case ExpressionKind::subtract: return !__builtin_sub_overflow(a, b, &result);
    case ExpressionKind::multiply: return !__builtin_mul_overflow(a, b, &result);
    case ExpressionKind::floor_divide:
      if (b < 1) return false;
      result = a / b - (a % b < 0 ? 1 : 0);
      return true;
    case ExpressionKind::modulo:
      if (b < 1) return false;
      result = a % b + (a % b < 0 ? b : 0);
      return true;
    case ExpressionKind::min: result = a < b ? a : b; return true;
    case ExpressionKind::max: result = a > b ? a : b; return true;
    case ExpressionKind::constant:
    case ExpressionKind::symbol: break;
  }
  return false;
}

// What stops a size that is no multiple of its Dim: the exporter lets the quotient divide by 0 there.
Status no_value(const Program& program, const int64_t* values, size_t at) noexcept {
  const Expression& e = program.expressions[at];
  for (size_t i = at; e.kind == ExpressionKind::floor_divide && values[e.b] == 0 && i-- > 0;) {
    const Expression& rest = program.expressions[i];
    if (rest.kind != ExpressionKind::modulo || rest.a != e.a || values[i] == 0) continue;
    const Expression& less = program.expressions[e.a];
    const Expression& size = program.expressions[less.kind == ExpressionKind::subtract ? less.a : e.a];
    if (size.kind != ExpressionKind::symbol) continue;
    const Symbol& symbol = program.symbols[size.a];
    const int64_t addend = less.kind == ExpressionKind::subtract ? values[less.b] : 0;
    return failure(Code::size_expression, Section::program,
                   "dimension %" PRIu32 " (%.*s) is %" PRId64 ", allowed are multiples of %" PRId64 " plus %" PRId64,
                   symbol.dim, static_cast<int>(symbol.name.size()), symbol.name.data(), values[e.a] + addend,
                   values[rest.b], addend);
  }
  return failure(Code::size_expression, Section::program,
                 "expression %zu of %" PRId64 " and %" PRId64 " overflows or divides by less than 1", at, values[e.a],
                 values[e.b]);
}

Status bind_tensor(const Tensor& tensor, const Place& place, const int64_t* values, Tensor& bound) noexcept {
  Checked size = dtype_bytes(tensor.dtype);
  for (uint8_t d = 0; d < tensor.rank; ++d) {
    if ((tensor.dynamic_dims >> d & 1) != 0) {
      const int64_t value = values[tensor.dims[d]];
      if (value < 1 || value > int64_t{kMaxDimension}) {
        return failure(Code::size_expression, Section::program,
                       "dimension %u is %" PRId64 ", allowed are 1 to %" PRIu32, d, value, kMaxDimension);
      }
      bound.dims[d] = static_cast<uint32_t>(value);
    }
    size = size * bound.dims[d];
  }
  if (!size.is_at_most(place.size_bytes)) {
    return failure(Code::size_bucket, Section::program, "a tensor takes more than its %" PRIu64 " bytes",
                   place.size_bytes);
  }
  bound.offset = place.offset;
  bound.size_bytes = size.value();
  return {};
}

}  // namespace

Program copy_to_bind(const Program& program) {
  Program copy;
  copy.tensors = program.tensors;
  copy.ops = program.ops;
  copy.inputs = program.inputs;
  return copy;
}

size_t bucket_for(const Program& program, const uint32_t* sizes) noexcept {
  for (size_t i = 0; i < program.buckets.size(); ++i) {
    bool holds = true;
    for (size_t s = 0; s < program.symbols.size(); ++s) holds = holds && sizes[s] <= program.buckets[i].bounds[s];
    if (holds) return i;
  }
  return program.buckets.size() - 1;
}

Status evaluate(const Program& program, const uint32_t* sizes, int64_t* values) noexcept {
  for (size_t i = 0; i < program.expressions.size(); ++i) {
    const Expression& e = program.expressions[i];
    if (e.kind == ExpressionKind::constant) {
      values[i] = e.a;
    } else if (e.kind == ExpressionKind::symbol) {
      values[i] = sizes[e.a];
    } else if (!combine(e.kind, values[e.a], values[e.b], values[i])) {
      return no_value(program, values, i);
    }
  }
  return {};
}

void dims_range(const Program& program, const Tensor& tensor, uint64_t* smallest, uint64_t* largest) {
  uint32_t sizes[2][kMaxSymbols] = {};
  for (size_t s = 0; s < program.symbols.size(); ++s) {
    sizes[0][s] = program.symbols[s].min;
    sizes[1][s] = program.symbols[s].max;
  }
  for (int end = 0; end < 2; ++end) {
    std::vector<int64_t> values(program.expressions.size());
    const bool is_known = evaluate(program, sizes[end], values.data()).is_ok();
    uint64_t* dims = end == 0 ? smallest : largest;
    for (uint8_t d = 0; d < tensor.rank; ++d) {
      const bool is_dynamic = (tensor.dynamic_dims >> d & 1) != 0;
      const int64_t value = is_dynamic ? (is_known ? values[tensor.dims[d]] : 1) : int64_t{tensor.dims[d]};
      dims[d] = value < 1 ? 1 : static_cast<uint64_t>(value);
    }
  }
}

Status bind(const Program& program, size_t bucket, const uint32_t* sizes, int64_t* values, Program& bound) noexcept {
  ALCOVE_TRY(evaluate(program, sizes, values));
  for (size_t t = 0; t < program.tensors.size(); ++t) {
    if (program.tensors[t].storage != Storage::arena) continue;
    const Place& place = program.buckets[bucket].places[t];
    if (Status status = bind_tensor(program.tensors[t], place, values, bound.tensors[t]); !status.is_ok()) {
      return status.in_tensor(t);
    }
  }
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    for (uint8_t a = 0; op.attribute_dynamic >> a != 0; ++a) {
      if ((op.attribute_dynamic >> a & 1) != 0) {
        bound.ops[i].attributes[a] = static_cast<uint64_t>(values[op.attributes[a]]);
      }
    }
  }
  return {};
}

}  // namespace alcove
