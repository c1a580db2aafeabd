// Choices by a condition; elements of one size are all alike.
#include "kernels/microkernels/where/where.h"

namespace alcove::kernels {

namespace {

template <typename T>
void where_run(const uint8_t* condition, size_t c_stride, const T* a, size_t a_stride, const T* b, size_t b_stride,
               T* output, size_t count) noexcept {
  if (c_stride == 1 && a_stride == 1 && b_stride == 1) {
    for (size_t i = 0; i < count; ++i) output[i] = condition[i] != 0 ? a[i] : b[i];
  } else {
    for (size_t i = 0; i < count; ++i) output[i] = condition[i * c_stride] != 0 ? a[i * a_stride] : b[i * b_stride];
  }
}

template <typename T>
void where_walk(const Where& p) noexcept {
  const Walk<3> walk = joined<3>(p.shape, {&p.condition_strides, &p.a_strides, &p.b_strides});
  const size_t last = walk.rank - 1;
  for_runs(walk, [&](const size_t (&offsets)[3], size_t at) {
    where_run(p.condition + offsets[0], walk.strides[0][last], static_cast<const T*>(p.a) + offsets[1],
              walk.strides[1][last], static_cast<const T*>(p.b) + offsets[2], walk.strides[2][last],
              static_cast<T*>(p.output) + at, walk.dims[last]);
  });
}

}  // namespace

void where_scalar(const Where& p) noexcept {
  if (p.element_bytes == 1) return where_walk<uint8_t>(p);
  if (p.element_bytes == 4) return where_walk<uint32_t>(p);
  where_walk<uint64_t>(p);
}

}  // namespace alcove::kernels
