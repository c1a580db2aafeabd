// Discrete Fourier transforms of rows: fft, rfft, irfft.
#include "core/ops/ops.h"

namespace alcove::ops {

namespace {

constexpr Integer kFirst{{OpCode::fft, OpCode::rfft, OpCode::irfft}, "first"};
constexpr Real kScale{{OpCode::fft, OpCode::rfft, OpCode::irfft}, "scale"};
constexpr uint32_t kFloat = make_set({DType::f32});
// Passes over a point, with what comes before and behind; a pass is some multiply-adds.
constexpr uint64_t kCostPerPoint = 16;

// A tensor has the shape of `like`, but for rows of `width`.
Status check_rows(const Subject& s, uint32_t index, const char* role, const Tensor& like, uint64_t width) {
  uint64_t dims[kMaxRank];
  for (uint8_t d = 0; d < like.rank; ++d) dims[d] = like.dims[d];
  dims[like.rank - 1] = width;
  ALCOVE_TRY(check_type(s, index, role, {.dtypes = kFloat}));
  return check_shape(s, index, role, dims, like.rank);
}

// Output 0 and, unless the result is real, output 2 are rows of `out_width`; input 0 and, if there are two of them, input 1
// rows of `in_width`; the last input is the table.
Status check_transform(const Subject& s, uint64_t points, uint64_t in_width, uint64_t out_width, bool is_real,
                       Checked& cost) {
  const auto last = static_cast<uint8_t>(s.op.input_count - 1);
  const Tensor& in = s.input(0);
  ALCOVE_TRY(check_finite(s, kScale, "scale"));
  ALCOVE_TRY(check_integer(s, kFirst, "first", 1, static_cast<int64_t>(points)));
  const auto first = static_cast<uint64_t>(s.integer(kFirst));
  const uint64_t second = points / first;
  if (first * second != points || !kernels::is_smooth(first) || !kernels::is_smooth(second)) {
    return failure(Code::op_attribute, Section::program,
                   "%s: %" PRIu64 " points are not %" PRIu64 " times another size without prime factors above 7",
                   s.name(), points, first);
  }
  for (uint8_t i = 0; i < last; ++i) ALCOVE_TRY(check_rows(s, s.op.inputs[i], "input", in, in_width));
  const uint64_t table[] = {2, kernels::fft_table_width(first, second, is_real)};
  ALCOVE_TRY(check_type(s, s.op.inputs[last], "table", {.dtypes = kFloat}));
  ALCOVE_TRY(check_shape(s, s.op.inputs[last], "table", table, 2));
  ALCOVE_TRY(check_rows(s, s.op.outputs[0], "output", in, out_width));
  ALCOVE_TRY(check_scratch(s, 1, kernels::fft_scratch_floats(Checked(points), first) * sizeof(float)));
  if (s.op.output_count > 2) ALCOVE_TRY(check_rows(s, s.op.outputs[2], "output 2", in, out_width));
  cost = elements(in) * kCostPerPoint + 64;
  return {};
}

Status check_rank(const Subject& s) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "input", {.dtypes = kFloat}));
  if (s.input(0).rank > 0) return {};
  return failure(Code::op_shape, Section::program, "%s: the input has rank 0, expected 1 or more", s.name())
      .in_tensor(s.op.inputs[0]);
}

uint64_t last_dimension(const Tensor& tensor) { return tensor.dims[tensor.rank - 1]; }

Status check_even(const Subject& s, uint64_t width) {
  if (width >= 2 && width % 2 == 0) return {};
  return failure(Code::op_shape, Section::program, "%s: %" PRIu64 " points, expected an even number", s.name(), width);
}

Status run_transform(const Call& c, kernels::FftF32Kernel* kernel, size_t points, size_t in_width,
                     size_t out_width) noexcept {
  const bool is_complex = c.op.input_count == 3;
  const auto first = static_cast<size_t>(c.integer(kFirst));
  const size_t rows = c.input(0).element_count() / in_width;
  kernels::FftF32 all{};
  all.re = c.in<float>(0);
  all.im = is_complex ? c.in<float>(1) : nullptr;
  all.table = c.in<float>(static_cast<uint8_t>(c.op.input_count - 1));
  all.out_re = c.out<float>(0);
  all.out_im = c.op.output_count > 2 ? c.out<float>(2) : nullptr;
  all.first = first;
  all.second = points / first;
  all.scale = static_cast<float>(c.real(kScale));
  c.split(rows, rows * points * kCostPerPoint, [&](size_t begin, size_t end, size_t part) noexcept {
    kernels::FftF32 some = all;
    some.re += begin * in_width;
    if (some.im != nullptr) some.im += begin * in_width;
    some.out_re += begin * out_width;
    if (some.out_im != nullptr) some.out_im += begin * out_width;
    some.rows = end - begin;
    some.scratch = c.scratch<float>(part);
    kernel(some);
  });
  return {};
}

}  // namespace

Status check_fft(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_rank(s));
  const uint64_t points = last_dimension(s.input(0));
  return check_transform(s, points, points, points, false, cost);
}

Status run_fft(const Call& c) noexcept {
  const size_t points = last_dimension(c.input(0));
  return run_transform(c, c.kernels.fft_f32, points, points, points);
}

Status check_rfft(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_rank(s));
  const uint64_t width = last_dimension(s.input(0));
  ALCOVE_TRY(check_even(s, width));
  return check_transform(s, width / 2, width, width / 2 + 1, true, cost);
}

Status run_rfft(const Call& c) noexcept {
  const size_t width = last_dimension(c.input(0));
  return run_transform(c, c.kernels.rfft_f32, width / 2, width, width / 2 + 1);
}

Status check_irfft(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_rank(s));
  const uint64_t width = last_dimension(s.input(0));
  if (width < 2) {
    return failure(Code::op_shape, Section::program, "irfft: one frequency, expected 2 or more")
        .in_tensor(s.op.inputs[0]);
  }
  return check_transform(s, width - 1, width, 2 * (width - 1), true, cost);
}

Status run_irfft(const Call& c) noexcept {
  const size_t width = last_dimension(c.input(0));
  return run_transform(c, c.kernels.irfft_f32, width - 1, width, 2 * (width - 1));
}

}  // namespace alcove::ops
