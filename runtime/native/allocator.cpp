// Every `new` of libalcove.so comes here, those of its copy of the standard library included; no other library sees it.  In front
// of a block stands where it came from: a model that a session shares may be freed by the call that closes the session.
#include "allocator.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace alcove {

namespace {

thread_local const Allocator* in_force = nullptr;

struct Origin {
  void* context;
  void (*release)(void* context, void* memory, size_t bytes);
  size_t bytes;  // with what stands in front
  size_t front;  // bytes before the block
};

constexpr size_t kLeastAlignment = alignof(std::max_align_t);

void* system_memory(size_t bytes, size_t alignment) noexcept {
  if (alignment <= kLeastAlignment) return std::malloc(bytes);
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void* take(size_t bytes, size_t alignment) noexcept {
  if (alignment < kLeastAlignment) alignment = kLeastAlignment;
  const size_t front = (sizeof(Origin) + alignment - 1) / alignment * alignment;
  if (bytes > SIZE_MAX - front - alignment) return nullptr;
  const Allocator allocator = in_force != nullptr ? *in_force : Allocator{};
  const size_t whole = bytes + front;
  void* const memory = allocator.allocate != nullptr ? allocator.allocate(allocator.context, whole, alignment)
                                                     : system_memory(whole, alignment);
  if (memory == nullptr) return nullptr;
  uint8_t* const block = static_cast<uint8_t*>(memory) + front;
  const bool is_system = allocator.allocate == nullptr;
  new (block - sizeof(Origin)) Origin{allocator.context, is_system ? nullptr : allocator.release, whole, front};
  return block;
}

void give(void* block) noexcept {
  if (block == nullptr) return;
  uint8_t* const bytes = static_cast<uint8_t*>(block);
  const Origin origin = *reinterpret_cast<const Origin*>(bytes - sizeof(Origin));
  void* const memory = bytes - origin.front;
  if (origin.release != nullptr) {
    origin.release(origin.context, memory, origin.bytes);
  } else {
    std::free(memory);
  }
}

}  // namespace

AllocatorScope::AllocatorScope(const Allocator& allocator) noexcept : before_(in_force) { in_force = &allocator; }
AllocatorScope::~AllocatorScope() { in_force = before_; }

}  // namespace alcove

void* operator new(size_t bytes) {
  void* const block = alcove::take(bytes, 0);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  void* const block = alcove::take(bytes, static_cast<size_t>(alignment));
  if (block == nullptr) throw std::bad_alloc();
  return block;
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return alcove::take(bytes, 0); }
void* operator new(size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return alcove::take(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* block) noexcept { alcove::give(block); }
void operator delete(void* block, size_t) noexcept { alcove::give(block); }
void operator delete(void* block, std::align_val_t) noexcept { alcove::give(block); }
void operator delete(void* block, size_t, std::align_val_t) noexcept { alcove::give(block); }
