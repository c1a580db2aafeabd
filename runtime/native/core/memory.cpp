#include "core/memory.h"

#include <cstring>
#include <new>

#include "core/limits.h"

// A sanitizer sees what lies around memory of operator new, and nothing around a mapping.
#if defined(__linux__) && !defined(ALCOVE_SANITIZE) && !defined(__SANITIZE_ADDRESS__)
#include <sys/mman.h>
#define ALCOVE_MAPS_MEMORY 1
#else
#define ALCOVE_MAPS_MEMORY 0
#endif

namespace alcove {

#if ALCOVE_MAPS_MEMORY
namespace {

constexpr uint64_t kLeastMapped = 128 << 10, kLargePage = 2 << 20;
constexpr uint64_t kPage = 64 << 10;  // the largest that a 64-bit ARM has by default
// Before and behind the zeros a page is mapped.  A kernel loads some pixels beside an image with a mask that leaves them out; where
// their page is not there, the processor takes hundreds of cycles for each such load to find out that nothing is wrong.
constexpr uint64_t kMargin = kPage, kLeastPage = 4 << 10, kTouched = 16 << 10;

// Zeros, a multiple of kPage of them, from kLargePage on on such a boundary, with the margins around them; null if there are none.
uint8_t* map_zeros(uint64_t bytes) noexcept {
  const uint64_t extra = bytes >= kLargePage ? kLargePage : 0, whole = bytes + 2 * kMargin;
  void* const mapped = mmap(nullptr, whole + extra, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  uint8_t* memory = static_cast<uint8_t*>(mapped) + kMargin;
  if (extra > 0) {
    const uint64_t before = (kLargePage - reinterpret_cast<uintptr_t>(memory) % kLargePage) % kLargePage;
    if (before > 0) munmap(mapped, before);
    memory += before;
    if (before < extra) munmap(memory + bytes + kMargin, extra - before);
#if defined(MADV_HUGEPAGE)
    madvise(memory, bytes, MADV_HUGEPAGE);
#endif
  }
  // Advice, as the line above: a system that does not take it gives pages as they are used.
#if defined(MADV_POPULATE_WRITE)
  madvise(memory, bytes, MADV_POPULATE_WRITE);
#endif
  for (uint64_t at = kLeastPage; at <= kTouched; at += kLeastPage) {
    memory[-static_cast<ptrdiff_t>(at)] = 0;
    memory[bytes + at - kLeastPage] = 0;
  }
  return memory;
}

}  // namespace
#endif

void MemoryRelease::operator()(uint8_t* memory) const noexcept {
#if ALCOVE_MAPS_MEMORY
  if (mapped_bytes > 0) {
    munmap(memory - kMargin, mapped_bytes + 2 * kMargin);
    return;
  }
#endif
  ::operator delete(memory, std::align_val_t{kTensorAlignment});
}

void advise_large_pages([[maybe_unused]] const void* memory, [[maybe_unused]] uint64_t bytes) noexcept {
#if ALCOVE_MAPS_MEMORY && defined(MADV_HUGEPAGE)
  const uint64_t start = (reinterpret_cast<uintptr_t>(memory) + kPage - 1) / kPage * kPage;
  const uint64_t end = (reinterpret_cast<uintptr_t>(memory) + bytes) / kPage * kPage;
  if (bytes < kLargePage || end <= start) return;
  madvise(reinterpret_cast<void*>(start), end - start, MADV_HUGEPAGE);  // advice: it is no error if there are none
#endif
}

Memory allocate_zeros(uint64_t bytes) noexcept {
#if ALCOVE_MAPS_MEMORY
  if (bytes >= kLeastMapped && bytes < UINT64_MAX / 2) {
    const uint64_t whole = (bytes + kPage - 1) / kPage * kPage;
    return {map_zeros(whole), MemoryRelease{whole}};
  }
#endif
  const uint64_t size = bytes > 0 ? bytes : kTensorAlignment;
  auto* memory = static_cast<uint8_t*>(::operator new(size, std::align_val_t{kTensorAlignment}, std::nothrow));
  if (memory != nullptr) std::memset(memory, 0, bytes);
  return Memory(memory);
}

}  // namespace alcove
