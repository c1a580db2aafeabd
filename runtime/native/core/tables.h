// The two halves of pass 2: tables.cpp reads tensors, ops and ports; size_tables.cpp what sessions keep and size.
#pragma once

#include "core/checked.h"
#include "core/cursor.h"

namespace alcove {

// Where constants lie: one after the other, through all methods; a later method may read those of earlier ones besides.
class Constants {
 public:
  // Of a file of this minor version.
  Constants(uint64_t weights_bytes, uint16_t minor) : bound_(weights_bytes), minor_(minor) {}
  // What was added so far is of earlier methods.
  void begin_method() noexcept { shared_ = known_.size(); }
  [[nodiscard]] Status add(const Tensor& tensor);
  // After the last method: WEIGHTS ends with the last constant.
  [[nodiscard]] Status check_end() const;

 private:
  struct Span {
    uint64_t offset, size_bytes;  // in the file
    DType stored;
  };
  [[nodiscard]] bool is_shared(const Tensor& tensor) const noexcept;

  std::vector<Span> known_;  // by rising offset
  size_t shared_ = 0;
  uint64_t bound_;
  uint16_t minor_;
};

// Of states, symbols, expressions, buckets and places, without their strings.  Precondition: counts within their caps.
[[nodiscard]] Checked size_tables_bytes(const format::ProgramHeader& header);

// Precondition: tensors and input ports are read.
[[nodiscard]] Status read_size_tables(Program& program, Cursor& cursor, const format::ProgramHeader& header);

}  // namespace alcove
