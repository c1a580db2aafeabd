#include "binding/regions.h"

#include <cmath>
#include <memory>

#include "binding/array.h"
#include "binding/raise.h"
#include "core/checked.h"
#include "core/status.h"
#include "kernels/microkernels/connected_components/connected_components.h"
#include "kernels/microkernels/non_maximum_suppression/non_maximum_suppression.h"

namespace nb = nanobind;

namespace alcove::binding {

namespace {

constexpr uint64_t kMostPixels = 0x7FFFFFFF;
constexpr size_t kMostBoxes = 0x7FFFFFFF;

}  // namespace

nb::tuple find_components(const Masks& masks, int connectivity) {
  const size_t batch = masks.shape(0), height = masks.shape(1), width = masks.shape(2);
  if (batch < 1 || height < 1 || width < 1 || !(Checked(height) * width).is_at_most(kMostPixels) ||
      (connectivity != 4 && connectivity != 8)) {
    raise(failure(Code::input_shape, Section::file,
                  "connected_components: %zu x %zu x %zu with connectivity %d; allowed are 1 and more, below 2^31 "
                  "pixels, and 4 or 8",
                  batch, height, width, connectivity));
  }
  const Array<int32_t> labels(batch * height * width), areas(batch * height * width);
  const size_t bytes = kernels::connected_components_scratch_bytes<size_t>(height, width);
  const std::unique_ptr<uint32_t[]> scratch(new uint32_t[bytes / sizeof(uint32_t)]);
  const auto* const input = reinterpret_cast<const uint8_t*>(masks.data());
  {
    nb::gil_scoped_release free_threads;
    for (size_t i = 0; i < batch; ++i) {
      kernels::connected_components_scalar({.mask = input + i * height * width,
                                            .labels = labels.data + i * height * width,
                                            .areas = areas.data + i * height * width,
                                            .scratch = reinterpret_cast<uint8_t*>(scratch.get()),
                                            .height = height,
                                            .width = width,
                                            .by_corners = connectivity == 8});
    }
  }
  const size_t all[] = {batch, height, width};
  return nb::make_tuple(nb::ndarray<nb::numpy, int32_t>(labels.data, 3, all, labels.owner),
                        nb::ndarray<nb::numpy, int32_t>(areas.data, 3, all, areas.owner));
}

nb::tuple suppress_boxes(const Boxes& boxes, const Scores& scores, const std::optional<Classes>& classes,
                         double iou_threshold, double score_threshold, size_t most) {
  const size_t batch = boxes.shape(0), count = boxes.shape(1);
  if (batch < 1 || count < 1 || count > kMostBoxes || most < 1 || most > kMostBoxes || scores.shape(0) != batch ||
      scores.shape(1) != count || (classes && (classes->shape(0) != batch || classes->shape(1) != count)) ||
      !(iou_threshold >= 0.0 && iou_threshold <= 1.0) || std::isnan(score_threshold)) {
    raise(failure(Code::input_shape, Section::file,
                  "non_maximum_suppression: %zu x %zu boxes, %zu x %zu scores, at most %zu, thresholds %g and %g; "
                  "allowed are 1 and more of one number, an overlap of 0 to 1 and a score that is a number",
                  batch, count, scores.shape(0), scores.shape(1), most, iou_threshold, score_threshold));
  }
  const Array<int64_t> indices(batch * most), counts(batch);
  const size_t bytes = kernels::non_maximum_suppression_scratch_bytes<size_t>(count, most);
  const std::unique_ptr<uint64_t[]> scratch(new uint64_t[bytes / sizeof(uint64_t) + 1]);
  {
    nb::gil_scoped_release free_threads;
    for (size_t i = 0; i < batch; ++i) {
      kernels::non_maximum_suppression_f32_scalar({.boxes = boxes.data() + i * count * 4,
                                                   .scores = scores.data() + i * count,
                                                   .classes = classes ? classes->data() + i * count : nullptr,
                                                   .indices = indices.data + i * most,
                                                   .kept = counts.data + i,
                                                   .scratch = reinterpret_cast<uint8_t*>(scratch.get()),
                                                   .count = count,
                                                   .most = most,
                                                   .overlap = iou_threshold,
                                                   .score = score_threshold});
    }
  }
  const size_t all[] = {batch, most};
  return nb::make_tuple(nb::ndarray<nb::numpy, int64_t>(indices.data, 2, all, indices.owner),
                        nb::ndarray<nb::numpy, int64_t>(counts.data, 1, all, counts.owner));
}

}  // namespace alcove::binding
