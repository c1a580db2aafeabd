// Labelings of frames: ctc_beam.
#include <bit>

#include "core/ops/ops.h"

namespace alcove::ops {

namespace {

constexpr Integer kWidth{OpCode::ctc_beam, "width"}, kBlank{OpCode::ctc_beam, "blank"};

}  // namespace

Status check_ctc_beam(const Subject& s, Checked& cost) {
  ALCOVE_TRY(check_type(s, s.op.inputs[0], "log_probs", {.dtypes = kFloat, .rank = 3}));
  const Tensor& in = s.input(0);
  const uint64_t batch = in.dims[0], frames = in.dims[1], classes = in.dims[2];
  ALCOVE_TRY(check_integer(s, kWidth, "width", 1, kernels::kCtcMostWidth));
  ALCOVE_TRY(check_integer(s, kBlank, "blank", 0, static_cast<int64_t>(classes) - 1));
  const auto width = static_cast<uint64_t>(s.integer(kWidth));
  ALCOVE_TRY(check_type(s, s.op.outputs[0], "ids", {.dtypes = make_set({DType::i64}), .rank = 3}));
  const uint64_t paths = s.output(0).dims[1];
  if (paths > width) {
    return failure(Code::op_shape, Section::program, "ctc_beam: %" PRIu64 " paths of a beam of %" PRIu64, paths, width)
        .in_tensor(s.op.outputs[0]);
  }
  const uint64_t ids[] = {batch, paths, frames}, rows[] = {batch, paths};
  ALCOVE_TRY(check_shape(s, s.op.outputs[0], "ids", ids, 3));
  ALCOVE_TRY(check_type(s, s.op.outputs[1], "counts", {.dtypes = make_set({DType::i64})}));
  ALCOVE_TRY(check_shape(s, s.op.outputs[1], "counts", rows, 2));
  ALCOVE_TRY(check_type(s, s.op.outputs[2], "scores", {.dtypes = kFloat}));
  ALCOVE_TRY(check_shape(s, s.op.outputs[2], "scores", rows, 2));
  ALCOVE_TRY(check_scratch(s, 3, kernels::ctc_scratch_bytes<Checked>(frames, classes, width)));
  // A frame's exponentials; each class of each prefix, which may sink through the whole heap; each prefix among the children of another,
  // in the list of what is kept and in that of the tree; each path back to its beginning.
  const Checked frame = Checked(classes) * 64 + (Checked(classes) + 1) * (width * (4 + 4 * std::bit_width(width))) +
                        Checked(width) * (2 * width) + Checked(paths) * 16;
  if (!frame.is_at_most(kUnstoppableOpBudget)) {
    return failure(Code::op_budget, Section::program,
                   "ctc_beam: a frame takes more than %" PRIu64 " operations, and can't be stopped within",
                   kUnstoppableOpBudget);
  }
  cost = Checked(batch) * frames * frame;
  return {};
}

Status run_ctc_beam(const Call& c) noexcept {
  const Tensor& in = c.input(0);
  const size_t frames = in.dims[1], classes = in.dims[2], paths = c.output(0).dims[1];
  for (size_t i = 0; i < in.dims[0]; ++i) {
    c.kernels.ctc_beam_f32({.log_probs = c.in<float>(0) + i * frames * classes,
                            .ids = c.out<int64_t>(0) + i * paths * frames,
                            .counts = c.out<int64_t>(1) + i * paths,
                            .scores = c.out<float>(2) + i * paths,
                            .scratch = c.out<uint8_t>(3),
                            .frames = frames,
                            .classes = classes,
                            .width = static_cast<size_t>(c.integer(kWidth)),
                            .paths = paths,
                            .blank = static_cast<size_t>(c.integer(kBlank)),
                            .is_cancelled = watched_flag()});
  }
  return {};
}

}  // namespace alcove::ops
