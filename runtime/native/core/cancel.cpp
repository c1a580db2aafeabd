#include "core/cancel.h"

namespace alcove {

namespace {

thread_local const std::atomic<bool>* watched = nullptr;

// What the products below do the work with; written once, before any of them runs.
kernels::KernelTable plain;

// Rows in multiples of what kernels take together.
constexpr size_t kRows = 48;

template <typename Product>
void run_by_rows(const Product& a, void (*kernel)(const Product&) noexcept) noexcept {
  const uint64_t row = uint64_t{a.n} * a.k;
  size_t step = a.m;
  if (a.m * row > kPollWork) {
    step = static_cast<size_t>(kPollWork / row) / kRows * kRows;
    if (step < kRows) step = kRows;
  }
  for (size_t first = 0; first < a.m; first += step) {
    if (is_run_cancelled()) return;
    if (step == a.m) return kernel(a);
    Product some = a;
    const size_t output = first * (a.output_stride > 0 ? a.output_stride : a.n);
    some.m = a.m - first < step ? a.m - first : step;
    some.input += first * (a.input_stride > 0 ? a.input_stride : a.k);
    some.output += output;
    if (some.residual != nullptr) some.residual += output;
    kernel(some);
  }
}

void linear_f32(const kernels::LinearF32& a) noexcept { run_by_rows(a, plain.linear_f32); }
void linear_halves(const kernels::LinearHalves& a) noexcept { run_by_rows(a, plain.linear_halves); }

void linear_i8(const kernels::LinearI8& a) noexcept {
  if (!is_run_cancelled()) plain.linear_i8_i8(a);
}

void linear_f32_qc8w_panels(const kernels::LinearF32& a) noexcept {
  if (!is_run_cancelled()) plain.linear_f32_qc8w_panels(a);
}

}  // namespace

CancelScope::CancelScope(const std::atomic<bool>* flag) noexcept : before_(watched) { watched = flag; }
CancelScope::~CancelScope() { watched = before_; }

const std::atomic<bool>* watched_flag() noexcept { return watched; }

bool is_run_cancelled() noexcept { return watched != nullptr && watched->load(std::memory_order_relaxed); }

kernels::KernelTable with_polls(const kernels::KernelTable& table) noexcept {
  plain = table;
  kernels::KernelTable polled = table;
  // A build of chosen operators has none of what it doesn't need.
  if (table.linear_f32 != nullptr) polled.linear_f32 = &linear_f32;
  if (table.linear_halves != nullptr) polled.linear_halves = &linear_halves;
  if (table.linear_i8_i8 != nullptr) polled.linear_i8_i8 = &linear_i8;
  if (table.linear_f32_qc8w_panels != nullptr) polled.linear_f32_qc8w_panels = &linear_f32_qc8w_panels;
  return polled;
}

}  // namespace alcove
