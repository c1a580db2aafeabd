// Memory of a session: zeroed, aligned to kTensorAlignment, freed with its handle.
#pragma once

#include <cstdint>
#include <memory>

namespace alcove {

struct MemoryRelease {
  uint64_t mapped_bytes = 0;  // 0: of operator new
  void operator()(uint8_t* memory) const noexcept;
};

using Memory = std::unique_ptr<uint8_t, MemoryRelease>;

// Null if the system gives none.  On Linux, from 128 KiB on, pages are asked for all at once, and from 2 MiB on as large ones where
// the system has them: a fault for each page of 4 KiB takes longer than writing it.  Beside them lie pages that loads with masks may
// reach.
Memory allocate_zeros(uint64_t bytes) noexcept;

// Asks for large pages for memory that nobody has written yet, where the system has them: weights that are read from end
// to end for each token would else wait for the table of pages.
void advise_large_pages(const void* memory, uint64_t bytes) noexcept;

}  // namespace alcove
