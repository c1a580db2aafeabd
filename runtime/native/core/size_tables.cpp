// Pass 2, second half: states, symbols, expressions, buckets.
#include <algorithm>

#include "core/tables.h"

namespace alcove {

namespace {

using format::BucketRecord;
using format::ExpressionRecord;
using format::PlaceRecord;
using format::ProgramHeader;
using format::StateRecord;
using format::SymbolRecord;

Status read_states(Program& program, Cursor& cursor, uint32_t count) {
  program.states.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    const auto r = cursor.next<StateRecord>();
    for (const uint32_t index : {r.tensor, r.initial, r.update}) {
      if (index >= program.tensors.size()) {
        return failure(Code::tensor_index, Section::program, "a state refers to tensor %" PRIu32 " of %zu", index,
                       program.tensors.size());
      }
    }
    State state{r.tensor, r.initial, r.update, {}};
    ALCOVE_TRY(cursor.text(r.name_bytes, kMaxNameBytes, "a state's name", state.name));
    program.states.push_back(state);
  }
  return {};
}

Status read_symbols(Program& program, Cursor& cursor, uint32_t count) {
  program.symbols.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    const auto r = cursor.next<SymbolRecord>();
    if (r.zero != 0) return failure(Code::padding, Section::program, "unused bytes of a symbol's record are not zero");
    if (r.min == 0 || r.min > r.max || r.max > kMaxDimension) {
      return failure(Code::size_symbol, Section::program, "symbol %" PRIu32 " is in %" PRIu32 " to %" PRIu32, i, r.min,
                     r.max);
    }
    Symbol symbol{r.min, r.max, r.input, r.dim, {}};
    ALCOVE_TRY(cursor.text(r.name_bytes, kMaxNameBytes, "a symbol's name", symbol.name));
    program.symbols.push_back(symbol);
  }
  return {};
}

Status read_expressions(Program& program, Cursor& cursor, uint32_t count) {
  program.expressions.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    const auto r = cursor.next<ExpressionRecord>();
    if (!is_zero_from(r.zero, 0)) {
      return failure(Code::padding, Section::program, "unused bytes of an expression's record are not zero");
    }
    const auto kind = static_cast<ExpressionKind>(r.kind);
    if (kind < ExpressionKind::constant || kind > ExpressionKind::max) {
      return failure(Code::size_expression, Section::program, "expression %" PRIu32 " is of unknown kind %u", i,
                     r.kind);
    }
    const bool is_leaf = kind == ExpressionKind::constant || kind == ExpressionKind::symbol;
    const int64_t bound = kind == ExpressionKind::symbol ? static_cast<int64_t>(program.symbols.size()) : int64_t{i};
    const bool fits = kind == ExpressionKind::constant || (r.a >= 0 && r.a < bound);
    if (!fits || (is_leaf ? r.b != 0 : r.b < 0 || r.b >= bound)) {
      return failure(Code::size_expression, Section::program,
                     "expression %" PRIu32 " is of %" PRId64 " and %" PRId64 ", which don't come before it", i, r.a,
                     r.b);
    }
    program.expressions.push_back({kind, r.a, r.b});
  }
  return {};
}

// Every symbol is exactly the dimension that it says.
Status check_symbols(const Program& program) {
  for (size_t i = 0; i < program.symbols.size(); ++i) {
    const Symbol& symbol = program.symbols[i];
    bool is_found = false;
    if (symbol.input < program.inputs.size()) {
      const Tensor& tensor = program.tensors[program.inputs[symbol.input].tensor];
      if (symbol.dim < tensor.rank && (tensor.dynamic_dims >> symbol.dim & 1) != 0) {
        const Expression& expression = program.expressions[tensor.dims[symbol.dim]];
        is_found = expression.kind == ExpressionKind::symbol && expression.a == static_cast<int64_t>(i);
      }
    }
    if (!is_found) {
      return failure(Code::size_symbol, Section::program, "symbol %zu is not dimension %" PRIu32 " of input %" PRIu32,
                     i, symbol.dim, symbol.input);
    }
  }
  return {};
}

Status check_place(const Tensor& tensor, const PlaceRecord& place) {
  const bool has_place = tensor.storage == Storage::arena && tensor.dtype != DType::text;
  if (!has_place && (place.offset != 0 || place.size_bytes != 0)) {
    return failure(Code::tensor_offset, Section::program, "a place in the arena for what lies elsewhere");
  }
  if (place.offset % kTensorAlignment != 0) {
    return failure(Code::tensor_offset, Section::program, "offset %" PRIu64 " is no multiple of %" PRIu64, place.offset,
                   kTensorAlignment);
  }
  if (place.size_bytes > kMaxArenaBytes) {
    return failure(Code::tensor_size, Section::program, "%" PRIu64 " bytes, the cap is %" PRIu64, place.size_bytes,
                   kMaxArenaBytes);
  }
  return {};
}

Status check_bounds(const Program& program, const BucketRecord& r, size_t index, bool is_last) {
  for (size_t s = 0; s < program.symbols.size(); ++s) {
    const Symbol& symbol = program.symbols[s];
    if (r.bounds[s] < symbol.min || r.bounds[s] > symbol.max || (is_last && r.bounds[s] != symbol.max)) {
      return failure(Code::size_bucket, Section::program,
                     "bucket %zu goes up to %" PRIu32 " for symbol %zu, which is in %" PRIu32 " to %" PRIu32, index,
                     r.bounds[s], s, symbol.min, symbol.max);
    }
  }
  if (index > 0 && r.arena_bytes < program.buckets[index - 1].arena_bytes) {
    return failure(Code::size_bucket, Section::program, "bucket %zu has a smaller arena than the one before", index);
  }
  if (!is_zero_from(r.bounds, program.symbols.size())) {
    return failure(Code::padding, Section::program, "unused bytes of a bucket's record are not zero");
  }
  return {};
}

Status read_buckets(Program& program, Cursor& cursor, uint32_t count) {
  program.buckets.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    const auto r = cursor.next<BucketRecord>();
    ALCOVE_TRY(check_bounds(program, r, i, i + 1 == count));
    Bucket bucket{};
    bucket.arena_bytes = r.arena_bytes;
    std::copy(std::begin(r.bounds), std::end(r.bounds), std::begin(bucket.bounds));
    program.buckets.push_back(std::move(bucket));
  }
  for (Bucket& bucket : program.buckets) {
    bucket.places.reserve(program.tensors.size());
    for (size_t t = 0; t < program.tensors.size(); ++t) {
      const auto r = cursor.next<PlaceRecord>();
      if (Status status = check_place(program.tensors[t], r); !status.is_ok()) return status.in_tensor(t);
      bucket.places.push_back({r.offset, r.size_bytes});
    }
  }
  if (program.buckets.back().arena_bytes != program.arena_bytes) {
    return failure(Code::size_bucket, Section::program,
                   "the program's arena has %" PRIu64 " bytes, that of the last bucket %" PRIu64, program.arena_bytes,
                   program.buckets.back().arena_bytes);
  }
  return {};
}

// The plan of a program whose sizes are known: what the tensors' records say.
Bucket only_bucket(const Program& program) {
  Bucket bucket{};
  bucket.arena_bytes = program.arena_bytes;
  bucket.places.reserve(program.tensors.size());
  for (const Tensor& tensor : program.tensors) {
    const bool is_arena = tensor.storage == Storage::arena;
    bucket.places.push_back(is_arena ? Place{tensor.offset, tensor.size_bytes} : Place{0, 0});
  }
  return bucket;
}

}  // namespace

Checked size_tables_bytes(const ProgramHeader& header) {
  return Checked(header.state_count) * sizeof(StateRecord) + Checked(header.symbol_count) * sizeof(SymbolRecord) +
         Checked(header.expression_count) * sizeof(ExpressionRecord) +
         Checked(header.bucket_count) *
             (Checked(sizeof(BucketRecord)) + Checked(header.tensor_count) * sizeof(PlaceRecord));
}

Status read_size_tables(Program& program, Cursor& cursor, const ProgramHeader& header) {
  ALCOVE_TRY(read_states(program, cursor, header.state_count));
  if (header.symbol_count == 0) {
    if (header.expression_count != 0 || header.bucket_count != 0) {
      return failure(Code::size_bucket, Section::program, "expressions or buckets without a symbol");
    }
    program.buckets.push_back(only_bucket(program));
    return {};
  }
  if (header.bucket_count == 0) return failure(Code::size_bucket, Section::program, "symbols without a bucket");
  ALCOVE_TRY(read_symbols(program, cursor, header.symbol_count));
  ALCOVE_TRY(read_expressions(program, cursor, header.expression_count));
  ALCOVE_TRY(check_symbols(program));
  return read_buckets(program, cursor, header.bucket_count);
}

}  // namespace alcove
