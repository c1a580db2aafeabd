// Pass 2: the records of the PROGRAM section.
#include <cinttypes>
#include <cstring>

#include "core/checked.h"
#include "core/verify.h"

namespace alcove {

namespace {

using format::OpRecord;
using format::PortRecord;
using format::ProgramHeader;
using format::TensorRecord;

// Reads records, then strings, of a private copy whose size was checked against the counts.
class Cursor {
 public:
  Cursor(const uint8_t* data, uint64_t strings, uint64_t size) : data_(data), string_(strings), size_(size) {}

  template <typename Record>
  Record next() {
    Record record;
    std::memcpy(&record, data_ + position_, sizeof(record));
    position_ += sizeof(record);
    return record;
  }

  // The next `bytes` of the strings, in the order of the records that own them.
  Status text(uint32_t bytes, uint32_t cap, const char* what, std::string_view& result) {
    if (bytes > cap) {
      return failure(Code::string_limit, Section::program, "%s has %" PRIu32 " bytes, the cap is %" PRIu32, what, bytes,
                     cap);
    }
    if (bytes > size_ - string_) {
      return failure(Code::program_size, Section::program, "%s of %" PRIu32 " bytes ends beyond the section", what, bytes);
    }
    result = std::string_view(reinterpret_cast<const char*>(data_ + string_), bytes);
    string_ += bytes;
    if (!is_printable_utf8(result)) {
      return failure(Code::string_text, Section::program, "%s is not printable UTF-8", what);
    }
    return {};
  }

  uint64_t strings_left() const { return size_ - string_; }

 private:
  const uint8_t* data_;
  uint64_t position_ = 0;
  uint64_t string_;
  uint64_t size_;
};

template <typename T, size_t kCount>
bool is_zero_from(const T (&slots)[kCount], size_t first) {
  for (size_t i = first; i < kCount; ++i) {
    if (slots[i] != 0) return false;
  }
  return true;
}

Status check_shape(const TensorRecord& r) {
  if (r.rank > kMaxRank) {
    return failure(Code::tensor_shape, Section::program, "rank %u, the cap is %" PRIu32, r.rank, kMaxRank);
  }
  for (uint8_t d = 0; d < r.rank; ++d) {
    if (r.dims[d] == 0 || r.dims[d] > kMaxDimension) {
      return failure(Code::tensor_shape, Section::program, "dimension %u is %" PRIu32 ", allowed are 1 to %" PRIu32, d,
                     r.dims[d], kMaxDimension);
    }
  }
  if (r.zero != 0 || !is_zero_from(r.dims, r.rank)) {
    return failure(Code::padding, Section::program, "unused bytes of a tensor's record are not zero");
  }
  return {};
}

// Bytes that the elements take; precondition: check_shape.
Checked size_of(const TensorRecord& r) {
  Checked count = 1;
  if (r.layout == static_cast<uint8_t>(Layout::panel16)) {
    const Checked panels = (uint64_t{r.dims[0]} + 15) / 16;
    count = panels * (Checked(r.dims[1]) + 1) * 16;
  } else {
    for (uint8_t d = 0; d < r.rank; ++d) count = count * r.dims[d];
  }
  return count * dtype_bytes(static_cast<DType>(r.dtype));
}

Status check_tensor(const TensorRecord& r) {
  if (r.dtype < static_cast<uint8_t>(DType::f32) || r.dtype > static_cast<uint8_t>(DType::text)) {
    return failure(Code::tensor_dtype, Section::program, "unknown type %u", r.dtype);
  }
  const auto dtype = static_cast<DType>(r.dtype);
  if (r.storage != static_cast<uint8_t>(Storage::constant) && r.storage != static_cast<uint8_t>(Storage::arena)) {
    return failure(Code::tensor_storage, Section::program, "unknown storage %u", r.storage);
  }
  const bool is_constant = r.storage == static_cast<uint8_t>(Storage::constant);
  ALCOVE_TRY(check_shape(r));
  if (r.layout == static_cast<uint8_t>(Layout::panel16)) {
    if (!is_constant || dtype != DType::f32 || r.rank != 2) {
      return failure(Code::tensor_layout, Section::program, "panels are for constant float32 matrices");
    }
  } else if (r.layout != static_cast<uint8_t>(Layout::row_major)) {
    return failure(Code::tensor_layout, Section::program, "unknown layout %u", r.layout);
  }
  if ((r.flags & ~format::kRagged) != 0 || ((r.flags & format::kRagged) != 0 && (is_constant || r.rank == 0))) {
    return failure(Code::tensor_flags, Section::program, "flags %#" PRIx32 " are not allowed here", r.flags);
  }
  if (dtype == DType::text && (is_constant || r.rank != 0 || r.offset != 0)) {
    return failure(Code::tensor_storage, Section::program, "text is for inputs, has rank 0 and lies outside the arena");
  }
  const uint64_t cap = is_constant ? kMaxFileBytes : kMaxArenaBytes;
  const Checked size = size_of(r);
  if (!size.is_at_most(cap) || !size.is(r.size_bytes)) {
    return failure(Code::tensor_size, Section::program,
                   "the record says %" PRIu64 " bytes, which is not what the shape gives or is above the cap of %" PRIu64,
                   r.size_bytes, cap);
  }
  if (r.offset % kTensorAlignment != 0) {
    return failure(Code::tensor_offset, Section::program, "offset %" PRIu64 " is no multiple of %" PRIu64, r.offset,
                   kTensorAlignment);
  }
  return {};
}

Status read_tensors(Program& program, Cursor& cursor, uint32_t count) {
  Checked end = 0;
  uint64_t weights_end = 0;
  program.tensors.reserve(count);
  for (uint32_t t = 0; t < count; ++t) {
    const auto r = cursor.next<TensorRecord>();
    if (Status status = check_tensor(r); !status.is_ok()) return status.in_tensor(t);
    Tensor tensor{};
    tensor.dtype = static_cast<DType>(r.dtype);
    tensor.storage = static_cast<Storage>(r.storage);
    tensor.layout = static_cast<Layout>(r.layout);
    tensor.is_ragged = (r.flags & format::kRagged) != 0;
    tensor.rank = r.rank;
    std::memcpy(tensor.dims, r.dims, sizeof(tensor.dims));
    tensor.offset = r.offset;
    tensor.size_bytes = r.size_bytes;
    if (Status status = cursor.text(r.name_bytes, kMaxNameBytes, "a tensor's name", tensor.name); !status.is_ok()) {
      return status.in_tensor(t);
    }
    if (tensor.storage == Storage::constant) {
      const Checked start = end.aligned(kTensorAlignment);
      end = start + tensor.size_bytes;
      if (!start.is(tensor.offset) || !end.is_at_most(program.weights_bytes)) {
        return failure(Code::tensor_offset, Section::program,
                       "a constant of %" PRIu64 " bytes at %" PRIu64
                       "; it must follow the one before and end within the %" PRIu64 " bytes of WEIGHTS",
                       tensor.size_bytes, tensor.offset, program.weights_bytes)
            .in_tensor(t);
      }
      weights_end = end.value();
    }
    program.tensors.push_back(tensor);
  }
  if (weights_end != program.weights_bytes) {
    return failure(Code::tensor_size, Section::program, "constants take %" PRIu64 " bytes, WEIGHTS has %" PRIu64,
                   weights_end, program.weights_bytes);
  }
  return {};
}

Status read_op(const OpRecord& r, Program& program, Cursor& cursor) {
  const OpInfo* info = op_info(r.code);
  if (info == nullptr) return failure(Code::op_unknown, Section::program, "unknown op code %u", r.code);
  if (r.input_count < info->min_inputs || r.input_count > info->max_inputs || r.output_count != info->outputs ||
      r.attribute_count != info->attribute_count) {
    return failure(Code::op_arity, Section::program,
                   "%s has %u inputs, %u outputs, %u attributes; it takes %u to %u, %u and %u", info->name, r.input_count,
                   r.output_count, r.attribute_count, info->min_inputs, info->max_inputs, info->outputs,
                   info->attribute_count);
  }
  if (!is_zero_from(r.zero, 0) || r.attribute_dynamic != 0 || !is_zero_from(r.inputs, r.input_count) ||
      !is_zero_from(r.outputs, r.output_count) || !is_zero_from(r.attributes, r.attribute_count)) {
    return failure(Code::padding, Section::program, "unused bytes of an op's record are not zero");
  }
  const size_t tensor_count = program.tensors.size();
  for (uint8_t i = 0; i < r.input_count + r.output_count; ++i) {
    const uint32_t index = i < r.input_count ? r.inputs[i] : r.outputs[i - r.input_count];
    if (index >= tensor_count) {
      return failure(Code::tensor_index, Section::program, "%s refers to tensor %" PRIu32 " of %zu", info->name, index,
                     tensor_count);
    }
  }
  Op op{};
  op.code = info->code;
  op.input_count = r.input_count;
  op.output_count = r.output_count;
  op.attribute_count = r.attribute_count;
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
                {"labels", h.label_count, kMaxLabels}};
  for (const auto& c : counts) {
    if (c.count > c.cap) {
      return failure(Code::count_limit, Section::program, "%" PRIu32 " %s, the cap is %" PRIu32, c.count, c.what, c.cap);
    }
  }
  const Checked expected = Checked(sizeof(ProgramHeader)) + Checked(h.tensor_count) * sizeof(TensorRecord) +
                           Checked(h.op_count) * sizeof(OpRecord) +
                           (Checked(h.input_count) + h.output_count) * sizeof(PortRecord) +
                           Checked(h.label_count) * sizeof(uint32_t) + h.string_bytes;
  if (!expected.is(size)) {
    return failure(Code::program_size, Section::program, "the counts don't add up to the %" PRIu64 " bytes of the section",
                   size);
  }
  if (!is_zero_from(h.zero, 0)) {
    return failure(Code::padding, Section::program, "unused bytes of the program's header are not zero");
  }
  return {};
}

}  // namespace

Status check_tables(Program& program) {
  const uint64_t size = program.bytes.size();
  if (size < sizeof(ProgramHeader)) {
    return failure(Code::program_size, Section::program, "the section has %" PRIu64 " bytes, its header takes %zu", size,
                   sizeof(ProgramHeader));
  }
  ProgramHeader header;
  std::memcpy(&header, program.bytes.data(), sizeof(header));
  ALCOVE_TRY(check_counts(header, size));
  program.arena_bytes = header.arena_bytes;

  Cursor cursor(program.bytes.data(), size - header.string_bytes, size);
  (void)cursor.next<ProgramHeader>();
  ALCOVE_TRY(read_tensors(program, cursor, header.tensor_count));
  program.ops.reserve(header.op_count);
  for (uint32_t i = 0; i < header.op_count; ++i) {
    if (Status status = read_op(cursor.next<OpRecord>(), program, cursor); !status.is_ok()) return status.in_op(i);
  }
  Checked labels = 0;
  ALCOVE_TRY(read_ports(program, cursor, header.input_count, program.inputs, labels));
  ALCOVE_TRY(read_ports(program, cursor, header.output_count, program.outputs, labels));
  if (!labels.is(header.label_count)) {
    return failure(Code::port_labels, Section::program, "the ports' labels don't add up to %" PRIu32, header.label_count);
  }
  program.labels.reserve(header.label_count);
  for (uint32_t i = 0; i < header.label_count; ++i) {
    std::string_view label;
    ALCOVE_TRY(cursor.text(cursor.next<uint32_t>(), kMaxLabelBytes, "a label", label));
    program.labels.push_back(label);
  }
  if (cursor.strings_left() != 0) {
    return failure(Code::program_size, Section::program, "%" PRIu64 " bytes follow the last string",
                   cursor.strings_left());
  }
  return {};
}

bool is_printable_utf8(std::string_view text) noexcept {
  const auto* p = reinterpret_cast<const uint8_t*>(text.data());
  const auto* end = p + text.size();
  while (p < end) {
    const uint8_t first = *p++;
    if (first < 0x80) {
      if (first < 0x20 || first == 0x7F) return false;
      continue;
    }
    // Unicode, table 3-7: how many bytes follow, and the range of the first of them.
    int follow = 0;
    uint8_t low = 0x80, high = 0xBF;
    if (first >= 0xC2 && first <= 0xDF) {
      follow = 1;
      if (first == 0xC2) low = 0xA0;  // U+0080 to U+009F are controls
    } else if (first >= 0xE0 && first <= 0xEF) {
      follow = 2;
      if (first == 0xE0) low = 0xA0;
      if (first == 0xED) high = 0x9F;
    } else if (first >= 0xF0 && first <= 0xF4) {
      follow = 3;
      if (first == 0xF0) low = 0x90;
      if (first == 0xF4) high = 0x8F;
    } else {
      return false;
    }
    if (end - p < follow) return false;
    for (int i = 0; i < follow; ++i, low = 0x80, high = 0xBF) {
      const uint8_t next = *p++;
      if (next < low || next > high) return false;
    }
  }
  return true;
}

}  // namespace alcove
