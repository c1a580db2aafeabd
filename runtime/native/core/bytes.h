// Holds the bytes of a program, copied, lent or mapped from a file, for as long as they are needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/status.h"

namespace alcove {

// Bytes that never change: owned, lent, or mapped from a file that nobody may write.  Movable; unmaps what it mapped.
class Bytes {
 public:
  // Copies `size` bytes.
  static Bytes copy_of(const uint8_t* data, size_t size);

  // Reads `size` bytes that nobody changes while `owner` lives, at a multiple of 16.
  static Bytes lent(const uint8_t* data, size_t size, std::shared_ptr<const void> owner);

  // Maps a regular file that belongs to this user (or root) and that nobody may write, as the SDK's slots hold them; reads
  // any other, so that whoever can change the file cannot change a program that was checked.
  static Result<Bytes> of_file(const char* path);

  Bytes() = default;
  Bytes(Bytes&& other) noexcept;
  Bytes& operator=(Bytes&& other) noexcept;
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  ~Bytes();

  [[nodiscard]] const uint8_t* data() const noexcept { return foreign_ != nullptr ? foreign_ : owned_.data(); }
  [[nodiscard]] size_t size() const noexcept { return foreign_ != nullptr ? foreign_size_ : owned_.size(); }
  [[nodiscard]] bool is_mapped() const noexcept { return foreign_ != nullptr && owner_ == nullptr; }

 private:
  std::vector<uint8_t> owned_;
  const uint8_t* foreign_ = nullptr;  // lent by `owner_`, or mapped if there is none
  size_t foreign_size_ = 0;
  std::shared_ptr<const void> owner_;
};

}  // namespace alcove
