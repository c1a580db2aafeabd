#include "binding/machine.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include <nanobind/nanobind.h>

#include "binding/raise.h"
#include "core/model.h"
#include "kernels/microkernels/peak/peak.h"

namespace nb = nanobind;

namespace alcove::binding {

namespace {

constexpr size_t kBlock = 1024;
constexpr size_t kLargestBytes = size_t{1} << 30;

struct Free {
  void operator()(uint8_t* memory) const noexcept { std::free(memory); }
};

// Doubles the rounds until they take long enough; `rounds_of` does so many and returns what is counted.
template <typename Rounds>
double measure_rate(int64_t least_ns, Rounds rounds_of) {
  nb::gil_scoped_release free_threads;
  for (uint64_t rounds = 1;; rounds *= 2) {
    const auto start = std::chrono::steady_clock::now();
    const uint64_t done = rounds_of(rounds);
    const auto spent =
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count();
    if (spent >= least_ns && spent > 0) return static_cast<double>(done) / static_cast<double>(spent);
  }
}

}  // namespace

double peak_rate(const std::string& dtype, int64_t least_ns) {
  const kernels::PeakTable table = kernels::peaks_for(value_or_raise(process_kernels())->isa);
  if (dtype != "f32" && dtype != "i8") throw nb::value_error("the peak is of f32 or i8");
  kernels::PeakKernel* const kernel = dtype == "f32" ? table.f32 : table.i8;
  return measure_rate(least_ns, [&](uint64_t rounds) { return kernel(rounds * 64); });
}

double read_rate(size_t size_bytes, int64_t least_ns) {
  const kernels::PeakTable table = kernels::peaks_for(value_or_raise(process_kernels())->isa);
  if (size_bytes < 1 || size_bytes > kLargestBytes) throw nb::value_error("a block has 1 to 2^30 bytes");
  const size_t size = (size_bytes + kBlock - 1) / kBlock * kBlock;
  const std::unique_ptr<uint8_t, Free> memory(static_cast<uint8_t*>(std::aligned_alloc(64, size)));
  if (memory == nullptr) throw std::bad_alloc();
  std::memset(memory.get(), 1, size);  // pages of its own; and the first reading is not of cold memory
  return measure_rate(least_ns, [&](uint64_t rounds) {
    for (uint64_t r = 0; r < rounds; ++r) table.read(memory.get(), size);
    return rounds * size;
  });
}

double clock_ns() {
  constexpr int kTimes = 4096;
  using Clock = std::chrono::steady_clock;  // CLOCK_MONOTONIC, as the session's
  const Clock::time_point start = Clock::now();
  Clock::time_point end = start;
  for (int i = 0; i < kTimes; ++i) end = Clock::now();
  return std::chrono::duration<double, std::nano>(end - start).count() / kTimes;
}

}  // namespace alcove::binding
