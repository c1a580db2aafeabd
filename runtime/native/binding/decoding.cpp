#include "binding/decoding.h"

#include <cinttypes>
#include <memory>

#include "binding/array.h"
#include "binding/raise.h"
#include "core/checked.h"
#include "core/status.h"
#include "kernels/microkernels/ctc_beam/ctc_beam.h"

namespace nb = nanobind;

namespace alcove::binding {

namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 32;

}  // namespace

nb::tuple decode_beam(const Frames& log_probs, size_t width, size_t paths, size_t blank) {
  const size_t batch = log_probs.shape(0), frames = log_probs.shape(1), classes = log_probs.shape(2);
  if (batch < 1 || frames < 1 || blank >= classes || paths < 1 || paths > width || width > kernels::kCtcMostWidth) {
    raise(failure(
        Code::input_shape, Section::file,
        "ctc_beam: %zu x %zu x %zu with width %zu, %zu paths and blank %zu; allowed are 1 and more, widths to %zu, "
        "1 to as many paths and a blank below the classes",
        batch, frames, classes, width, paths, blank, kernels::kCtcMostWidth));
  }
  const Checked bytes = kernels::ctc_scratch_bytes<Checked>(frames, classes, width);
  if (!bytes.is_at_most(kMostBytes)) {
    raise(failure(Code::input_shape, Section::file,
                  "ctc_beam: %zu frames of %zu classes with width %zu take too much room", frames, classes, width));
  }
  const Array<int64_t> ids(batch * paths * frames), counts(batch * paths);
  const Array<float> scores(batch * paths);
  const std::unique_ptr<double[]> scratch(new double[bytes.value() / sizeof(double) + 1]);
  const float* const input = log_probs.data();
  {
    nb::gil_scoped_release free_threads;
    for (size_t i = 0; i < batch; ++i) {
      kernels::ctc_beam_f32_scalar({.log_probs = input + i * frames * classes,
                                    .ids = ids.data + i * paths * frames,
                                    .counts = counts.data + i * paths,
                                    .scores = scores.data + i * paths,
                                    .scratch = reinterpret_cast<uint8_t*>(scratch.get()),
                                    .frames = frames,
                                    .classes = classes,
                                    .width = width,
                                    .paths = paths,
                                    .blank = blank});
    }
  }
  const size_t all[] = {batch, paths, frames};
  return nb::make_tuple(nb::ndarray<nb::numpy, int64_t>(ids.data, 3, all, ids.owner),
                        nb::ndarray<nb::numpy, int64_t>(counts.data, 2, all, counts.owner),
                        nb::ndarray<nb::numpy, float>(scores.data, 2, all, scores.owner));
}

}  // namespace alcove::binding
