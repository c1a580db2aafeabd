// Takes libalcove.so's memory from the allocator in force: a host's, while a call of its model or session lasts.
#pragma once

#include "alcove.h"

namespace alcove {

// What a block needs to go back; copied from the host's struct, which need not stay.
struct Allocator {
  void* context = nullptr;
  void* (*allocate)(void* context, size_t bytes, size_t alignment) = nullptr;  // null: the system's
  void (*release)(void* context, void* memory, size_t bytes) = nullptr;
};

// Blocks of this thread come from `allocator` as long as this lives.  A block goes back where it came from, whatever is in force.
class AllocatorScope {
 public:
  explicit AllocatorScope(const Allocator& allocator) noexcept;
  ~AllocatorScope();
  AllocatorScope(const AllocatorScope&) = delete;
  AllocatorScope& operator=(const AllocatorScope&) = delete;

 private:
  const Allocator* before_;
};

}  // namespace alcove
