// The truth about reduce, and the kernels of the integers.
#include "kernels/reduce/body.h"

namespace alcove::kernels {

void reduce_f32_reference(const Reduce& a) noexcept { reduce<float>(a); }
void reduce_i32_reference(const Reduce& a) noexcept { reduce<int32_t>(a); }
void reduce_i64_reference(const Reduce& a) noexcept { reduce<int64_t>(a); }
void reduce_i8_reference(const Reduce& a) noexcept { reduce<int8_t>(a); }
void reduce_u8_reference(const Reduce& a) noexcept { reduce<uint8_t>(a); }

}  // namespace alcove::kernels
