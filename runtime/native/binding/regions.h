// Finds regions of pictures outside programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace alcove::binding {

using Masks = nanobind::ndarray<const bool, nanobind::ndim<3>, nanobind::c_contig, nanobind::device::cpu>;
using Boxes = nanobind::ndarray<const float, nanobind::shape<-1, -1, 4>, nanobind::c_contig, nanobind::device::cpu>;
using Scores = nanobind::ndarray<const float, nanobind::ndim<2>, nanobind::c_contig, nanobind::device::cpu>;
using Classes = nanobind::ndarray<const int64_t, nanobind::ndim<2>, nanobind::c_contig, nanobind::device::cpu>;

// (labels int32, areas int32), both of the masks' shape
nanobind::tuple find_components(const Masks& masks, int connectivity);

// (indices int64 [batch, most], counts int64 [batch])
nanobind::tuple suppress_boxes(const Boxes& boxes, const Scores& scores, const std::optional<Classes>& classes,
                               double iou_threshold, double score_threshold, size_t most);

}  // namespace alcove::binding
