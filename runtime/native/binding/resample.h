// Resizes pictures for programs whose input has one size: each pixel is a weighted sum of neighbors, rows then columns.
#pragma once

#include <cstdint>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace alcove::binding {

using Pixels = nanobind::ndarray<const uint8_t, nanobind::shape<-1, -1, 3>, nanobind::c_contig, nanobind::device::cpu>;
using First = nanobind::ndarray<const uint32_t, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;
using Weights = nanobind::ndarray<const float, nanobind::ndim<2>, nanobind::c_contig, nanobind::device::cpu>;

// uint8 [rows, columns, 3]: row r is made of the picture's rows from row_first[r] on, weighted by row_weights[r]; columns likewise.
nanobind::object resample(Pixels pixels, First row_first, Weights row_weights, First column_first,
                          Weights column_weights);

}  // namespace alcove::binding
