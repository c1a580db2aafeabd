// Holds the bytes of a program, copied or mapped from a file, for as long as they are needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/status.h"

namespace alcove {

// Bytes that never change: owned, or mapped from a file that nobody may write.  Movable; unmaps what it mapped.
class Bytes {
 public:
  // Copies `size` bytes.
  static Bytes copy_of(const uint8_t* data, size_t size);

  // Maps a regular file that belongs to this user (or root) and that nobody may write, as the SDK's slots hold them; reads
  // any other, so that whoever can change the file cannot change a program that was checked.
  static Result<Bytes> of_file(const char* path);

  Bytes() = default;
  Bytes(Bytes&& other) noexcept;
  Bytes& operator=(Bytes&& other) noexcept;
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  ~Bytes();

  [[nodiscard]] const uint8_t* data() const noexcept { return mapped_ != nullptr ? mapped_ : owned_.data(); }
  [[nodiscard]] size_t size() const noexcept { return mapped_ != nullptr ? mapped_size_ : owned_.size(); }
  [[nodiscard]] bool is_mapped() const noexcept { return mapped_ != nullptr; }

 private:
  std::vector<uint8_t> owned_;
  const uint8_t* mapped_ = nullptr;
  size_t mapped_size_ = 0;
};

}  // namespace alcove
