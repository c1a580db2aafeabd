// Decodes frames of classes outside programs.
#pragma once

#include <cstddef>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace alcove::binding {

using Frames = nanobind::ndarray<const float, nanobind::ndim<3>, nanobind::c_contig, nanobind::device::cpu>;

// (ids int64 [batch, paths, frames], counts int64 [batch, paths], scores float32 [batch, paths])
nanobind::tuple decode_beam(const Frames& log_probs, size_t width, size_t paths, size_t blank);

}  // namespace alcove::binding
