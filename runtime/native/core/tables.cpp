// Pass 2: the records of the PROGRAM section.
#include <algorithm>
#include <cinttypes>
#include <cstddef>
#include <cstring>

#include "core/checked.h"
#include "core/cursor.h"
#include "core/tables.h"

namespace alcove {

namespace {

using format::OpRecord;
using format::PortRecord;
using format::ProgramHeader;
using format::TensorRecord;

Status check_shape(const TensorRecord& r) {
  if (r.rank > kMaxRank) {
    return failure(Code::tensor_shape, Section::program, "rank %u, the cap is %" PRIu32, r.rank, kMaxRank);
  }
  for (uint8_t d = 0; d < r.rank; ++d) {
    if ((r.dynamic_dims >> d & 1) != 0) continue;
    if (r.dims[d] == 0 || r.dims[d] > kMaxDimension) {
      return failure(Code::tensor_shape, Section::program, "dimension %u is %" PRIu32 ", allowed are 1 to %" PRIu32, d,
                     r.dims[d], kMaxDimension);
    }
  }
  if (!is_zero_from(r.dims, r.rank)) {
    return failure(Code::padding, Section::program, "unused bytes of a tensor's record are not zero");
  }
  return {};
}

// Bytes that the elements take; precondition: check_shape.
Checked compute_size(const TensorRecord& r) {
  Checked count = 1;
  if (r.layout == static_cast<uint8_t>(Layout::panel16)) {
    const Checked panels = (uint64_t{r.dims[0]} + 15) / 16;
    count = panels * (Checked(r.dims[1]) + 1) * 16;
  } else {
    for (uint8_t d = 0; d < r.rank; ++d) count = count * r.dims[d];
  }
  return count * dtype_bytes(static_cast<DType>(r.dtype));
}

// Whether it is a type of the file alone: operators see float32.
bool is_half(DType dtype) noexcept { return dtype == DType::f16 || dtype == DType::bf16; }

// Sizes that are known when the inputs are.  Precondition: check_shape.
Status check_dynamic(const TensorRecord& r, uint32_t expression_count) {
  const bool may_have = r.storage == static_cast<uint8_t>(Storage::arena) && (r.flags & format::kRagged) == 0;
  if (r.dynamic_dims >> r.rank != 0 || (r.dynamic_dims != 0 && !may_have)) {
    return failure(Code::tensor_flags, Section::program, "dynamic dimensions %#" PRIx32 " are not allowed here",
                   r.dynamic_dims);
  }
  for (uint8_t d = 0; d < r.rank; ++d) {
    if ((r.dynamic_dims >> d & 1) != 0 && r.dims[d] >= expression_count) {
      return failure(Code::size_expression, Section::program, "dimension %u is expression %" PRIu32 " of %" PRIu32, d,
                     r.dims[d], expression_count);
    }
  }
  return {};
}

// `is_static`: offset and size of an arena tensor stand in its record, and not in those of buckets.
Status check_place(const TensorRecord& r, bool is_static) {
  const auto storage = static_cast<Storage>(r.storage);
  const uint64_t cap = storage == Storage::constant ? kMaxFileBytes : kMaxArenaBytes;
  const Checked size = storage == Storage::arena && !is_static ? Checked(0) : compute_size(r);
  if (!size.is_at_most(cap) || !size.is(r.size_bytes)) {
    return failure(Code::tensor_size, Section::program,
                   "the record says %" PRIu64
                   " bytes, which is not what the shape gives or is above the cap of %" PRIu64,
                   r.size_bytes, cap);
  }
  if (r.offset % kTensorAlignment != 0 || (storage == Storage::arena && !is_static && r.offset != 0)) {
    return failure(Code::tensor_offset, Section::program,
                   "offset %" PRIu64 " is no multiple of %" PRIu64 ", or not 0 where buckets have it", r.offset,
                   kTensorAlignment);
  }
  return {};
}

Status check_tensor(const TensorRecord& r, const ProgramHeader& header) {
  if (r.dtype < static_cast<uint8_t>(DType::f32) || r.dtype > static_cast<uint8_t>(DType::bf16)) {
    return failure(Code::tensor_dtype, Section::program, "unknown type %u", r.dtype);
  }
  const auto dtype = static_cast<DType>(r.dtype);
  if (r.storage < static_cast<uint8_t>(Storage::constant) || r.storage > static_cast<uint8_t>(Storage::state)) {
    return failure(Code::tensor_storage, Section::program, "unknown storage %u", r.storage);
  }
  const bool is_constant = r.storage == static_cast<uint8_t>(Storage::constant);
  const bool is_arena = r.storage == static_cast<uint8_t>(Storage::arena);
  if (is_half(dtype) && !is_constant) {
    return failure(Code::tensor_dtype, Section::program, "%s is for constants alone", dtype_name(dtype));
  }
  ALCOVE_TRY(check_shape(r));
  ALCOVE_TRY(check_dynamic(r, header.expression_count));
  if (r.layout == static_cast<uint8_t>(Layout::panel16)) {
    if (!is_constant || (dtype != DType::f32 && !is_half(dtype)) || r.rank != 2) {
      return failure(Code::tensor_layout, Section::program, "panels are for constant matrices of floats");
    }
  } else if (r.layout != static_cast<uint8_t>(Layout::row_major)) {
    return failure(Code::tensor_layout, Section::program, "unknown layout %u", r.layout);
  }
  if ((r.flags & ~format::kRagged) != 0 || ((r.flags & format::kRagged) != 0 && (!is_arena || r.rank == 0))) {
    return failure(Code::tensor_flags, Section::program, "flags %#" PRIx32 " are not allowed here", r.flags);
  }
  if (dtype == DType::text && (!is_arena || r.rank != 0 || r.offset != 0)) {
    return failure(Code::tensor_storage, Section::program, "text is for inputs, has rank 0 and lies outside the arena");
  }
  return check_place(r, header.symbol_count == 0);
}

// Whether a tensor begins where it must, behind what ends at `end`, and ends within `bound`.
Status check_follows(const Tensor& tensor, uint64_t end, uint64_t bound, const char* where) {
  const Checked start = Checked(end).aligned(kTensorAlignment);
  if (start.is(tensor.offset) && (start + tensor.stored_bytes()).is_at_most(bound)) return {};
  return failure(Code::tensor_offset, Section::program,
                 "%" PRIu64 " bytes at %" PRIu64 "; they must follow those before and end within the %" PRIu64
                 " bytes of %s",
                 tensor.stored_bytes(), tensor.offset, bound, where);
}

Status read_tensors(Program& program, Cursor& cursor, const ProgramHeader& header, Constants& constants) {
  uint64_t states_end = 0;
  program.tensors.reserve(header.tensor_count);
  for (uint32_t t = 0; t < header.tensor_count; ++t) {
    const auto r = cursor.next<TensorRecord>();
    if (Status status = check_tensor(r, header); !status.is_ok()) return status.in_tensor(t);
    Tensor tensor{};
    tensor.stored = static_cast<DType>(r.dtype);
    tensor.dtype = is_half(tensor.stored) ? DType::f32 : tensor.stored;
    tensor.storage = static_cast<Storage>(r.storage);
    tensor.layout = static_cast<Layout>(r.layout);
    tensor.is_ragged = (r.flags & format::kRagged) != 0;
    tensor.rank = r.rank;
    tensor.dynamic_dims = static_cast<uint8_t>(r.dynamic_dims);
    std::memcpy(tensor.dims, r.dims, sizeof(tensor.dims));
    tensor.offset = r.offset;
    tensor.size_bytes = tensor.is_half() ? r.size_bytes * 2 : r.size_bytes;
    Status status = cursor.text(r.name_bytes, kMaxNameBytes, "a tensor's name", tensor.name);
    if (status.is_ok() && tensor.storage == Storage::constant) status = constants.add(tensor);
    if (status.is_ok() && tensor.storage == Storage::state) {
      status = check_follows(tensor, states_end, kMaxArenaBytes, "all states");
      states_end = tensor.offset + tensor.size_bytes;
    }
    if (!status.is_ok()) return status.in_tensor(t);
    program.tensors.push_back(tensor);
  }
  return {};
}

// Whether attribute `index` of an op is of a type that an expression can give.
bool is_integer_attribute(const OpInfo& info, uint32_t index) {
  std::string_view rest = info.attributes();
  for (; index > 0; --index) rest.remove_prefix(rest.find(' ') + 1);
  return rest.substr(rest.find(':') + 1, 3) == "i64";
}

Status check_dynamic_attributes(const OpRecord& r, const OpInfo& info, uint32_t expression_count) {
  for (uint32_t a = 0; a < 32; ++a) {
    if ((r.attribute_dynamic >> a & 1) == 0) continue;
    if (a >= r.attribute_count || !is_integer_attribute(info, a) || r.attributes[a] >= expression_count) {
      return failure(Code::size_expression, Section::program,
                     "attribute %" PRIu32 " of %s is no integer, or none of the %" PRIu32 " expressions", a,
                     info.name(), expression_count);
    }
  }
  return {};
}

Status read_op(const OpRecord& r, Program& program, Cursor& cursor, uint32_t expression_count) {
  const OpInfo* info = op_info(r.code);
  if (info == nullptr) return failure(Code::op_unknown, Section::program, "unknown op code %u", r.code);
  if (r.input_count < info->min_inputs || r.input_count > info->max_inputs || r.output_count != info->outputs ||
      r.attribute_count != info->attribute_count) {
    return failure(Code::op_arity, Section::program,
                   "%s has %u inputs, %u outputs, %u attributes; it takes %u to %u, %u and %u", info->name(),
                   r.input_count, r.output_count, r.attribute_count, info->min_inputs, info->max_inputs, info->outputs,
                   info->attribute_count);
  }
  if (!is_zero_from(r.zero, 0) || !is_zero_from(r.inputs, r.input_count) || !is_zero_from(r.outputs, r.output_count) ||
      !is_zero_from(r.attributes, r.attribute_count)) {
    return failure(Code::padding, Section::program, "unused bytes of an op's record are not zero");
  }
  ALCOVE_TRY(check_dynamic_attributes(r, *info, expression_count));
  const size_t tensor_count = program.tensors.size();
  for (uint8_t i = 0; i < r.input_count + r.output_count; ++i) {
    const uint32_t index = i < r.input_count ? r.inputs[i] : r.outputs[i - r.input_count];
    if (index >= tensor_count) {
      return failure(Code::tensor_index, Section::program, "%s refers to tensor %" PRIu32 " of %zu", info->name(),
                     index, tensor_count);
    }
  }
  Op op{};
  op.code = info->code;
  op.input_count = r.input_count;
  op.output_count = r.output_count;
  op.attribute_count = r.attribute_count;
  op.attribute_dynamic = r.attribute_dynamic;
  std::memcpy(op.inputs, r.inputs, sizeof(op.inputs));
  std::memcpy(op.outputs, r.outputs, sizeof(op.outputs));
  std::memcpy(op.attributes, r.attributes, sizeof(op.attributes));
  ALCOVE_TRY(cursor.text(r.source_bytes, kMaxSourceBytes, "an op's source", op.source));
  program.ops.push_back(op);
  return {};
}

Status read_ports(Program& program, Cursor& cursor, uint32_t count, std::vector<Port>& ports, Checked& labels) {
  ports.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    const auto r = cursor.next<PortRecord>();
    if (r.tensor >= program.tensors.size()) {
      return failure(Code::tensor_index, Section::program, "a port refers to tensor %" PRIu32 " of %zu", r.tensor,
                     program.tensors.size());
    }
    if (r.zero != 0) return failure(Code::padding, Section::program, "unused bytes of a port's record are not zero");
    Port port{};
    port.tensor = r.tensor;
    port.first_label = labels.is_at_most(kMaxLabels) ? static_cast<uint32_t>(labels.value()) : 0;
    port.label_count = r.label_count;
    labels = labels + r.label_count;
    ALCOVE_TRY(cursor.text(r.name_bytes, kMaxNameBytes, "a port's name", port.name));
    ports.push_back(port);
  }
  return {};
}

Status check_counts(const ProgramHeader& h, uint64_t size) {
  const struct {
    const char* what;
    uint32_t count, cap;
  } counts[] = {{"tensors", h.tensor_count, kMaxTensors}, {"ops", h.op_count, kMaxOps},
                {"inputs", h.input_count, kMaxPorts},     {"outputs", h.output_count, kMaxPorts},
                {"labels", h.label_count, kMaxLabels},    {"states", h.state_count, kMaxStates},
                {"symbols", h.symbol_count, kMaxSymbols}, {"expressions", h.expression_count, kMaxExpressions},
                {"buckets", h.bucket_count, kMaxBuckets}};
  for (const auto& c : counts) {
    if (c.count > c.cap) {
      return failure(Code::count_limit, Section::program, "%" PRIu32 " %s, the cap is %" PRIu32, c.count, c.what,
                     c.cap);
    }
  }
  const Checked expected = Checked(sizeof(ProgramHeader)) + Checked(h.tensor_count) * sizeof(TensorRecord) +
                           Checked(h.op_count) * sizeof(OpRecord) +
                           (Checked(h.input_count) + h.output_count) * sizeof(PortRecord) +
                           Checked(h.label_count) * sizeof(uint32_t) + size_tables_bytes(h) + h.string_bytes;
  if (!expected.is(size)) {
    return failure(Code::program_size, Section::program,
                   "the counts don't add up to the %" PRIu64 " bytes of the section", size);
  }
  if (!is_zero_from(h.zero, 0)) {
    return failure(Code::padding, Section::program, "unused bytes of the program's header are not zero");
  }
  return {};
}

}  // namespace

bool Constants::is_shared(const Tensor& tensor) const noexcept {
  const auto end = known_.begin() + static_cast<std::ptrdiff_t>(shared_);
  const auto found = std::lower_bound(known_.begin(), end, tensor.offset,
                                      [](const Span& span, uint64_t offset) { return span.offset < offset; });
  return found != end && found->offset == tensor.offset && found->size_bytes == tensor.stored_bytes() &&
         (found->stored == tensor.stored || (!is_half(found->stored) && !tensor.is_half()));
}

Status Constants::add(const Tensor& tensor) {
  if (tensor.is_half() && minor_ < format::kHalfMinor) {
    return failure(Code::tensor_dtype, Section::program, "a file of version 2.%u has no constants of 16 bits", minor_);
  }
  if (is_shared(tensor)) return {};
  const uint64_t end = known_.empty() ? 0 : known_.back().offset + known_.back().size_bytes;
  ALCOVE_TRY(check_follows(tensor, end, bound_, "WEIGHTS"));
  known_.push_back({tensor.offset, tensor.stored_bytes(), tensor.stored});
  return {};
}

Status Constants::check_end() const {
  const uint64_t end = known_.empty() ? 0 : known_.back().offset + known_.back().size_bytes;
  if (end == bound_) return {};
  return failure(Code::tensor_size, Section::program, "constants take %" PRIu64 " bytes, WEIGHTS has %" PRIu64, end,
                 bound_);
}

Status check_tables(Program& program, Constants& constants) {
  const uint64_t size = program.bytes.size();
  if (size < sizeof(ProgramHeader)) {
    return failure(Code::program_size, Section::program, "the section has %" PRIu64 " bytes, its header takes %zu",
                   size, sizeof(ProgramHeader));
  }
  ProgramHeader header;
  std::memcpy(&header, program.bytes.data(), sizeof(header));
  ALCOVE_TRY(check_counts(header, size));
  program.arena_bytes = header.arena_bytes;

  Cursor cursor(program.bytes.data(), size - header.string_bytes, size);
  (void)cursor.next<ProgramHeader>();
  ALCOVE_TRY(read_tensors(program, cursor, header, constants));
  program.ops.reserve(header.op_count);
  for (uint32_t i = 0; i < header.op_count; ++i) {
    const auto record = cursor.next<OpRecord>();
    if (Status status = read_op(record, program, cursor, header.expression_count); !status.is_ok())
      return status.in_op(i);
  }
  Checked labels = 0;
  ALCOVE_TRY(read_ports(program, cursor, header.input_count, program.inputs, labels));
  ALCOVE_TRY(read_ports(program, cursor, header.output_count, program.outputs, labels));
  if (!labels.is(header.label_count)) {
    return failure(Code::port_labels, Section::program, "the ports' labels don't add up to %" PRIu32,
                   header.label_count);
  }
  program.labels.reserve(header.label_count);
  for (uint32_t i = 0; i < header.label_count; ++i) {
    std::string_view label;
    ALCOVE_TRY(cursor.text(cursor.next<uint32_t>(), kMaxLabelBytes, "a label", label));
    program.labels.push_back(label);
  }
  ALCOVE_TRY(read_size_tables(program, cursor, header));
  if (cursor.strings_left() != 0) {
    return failure(Code::program_size, Section::program, "%" PRIu64 " bytes follow the last string",
                   cursor.strings_left());
  }
  return {};
}

}  // namespace alcove
