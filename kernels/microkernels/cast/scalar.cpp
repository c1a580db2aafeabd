// Conversions between element types.
#include "kernels/microkernels/cast/cast.h"

#include <limits>
#include <type_traits>

namespace alcove::kernels {

namespace {

// A bool's byte: any value that is not 0 is true.
struct Truth {
  uint8_t byte;
};

template <typename Integer>
Integer truncate(float x) noexcept {
  constexpr auto kLeast = static_cast<float>(std::numeric_limits<Integer>::min());
  const bool is_in_range = x >= kLeast && x < -kLeast;
  return is_in_range ? static_cast<Integer>(x) : std::numeric_limits<Integer>::min();
}

template <typename To, typename From>
To cast_one(From x) noexcept {
  if constexpr (std::is_same_v<From, Truth>) {
    return cast_one<To>(static_cast<uint8_t>(x.byte != 0 ? 1 : 0));
  } else if constexpr (std::is_same_v<To, Truth>) {
    return Truth{static_cast<uint8_t>(x != From{0} ? 1 : 0)};
  } else if constexpr (std::is_same_v<From, float> && sizeof(To) == 1) {
    return static_cast<To>(truncate<int64_t>(x));
  } else if constexpr (std::is_same_v<From, float> && !std::is_same_v<To, float>) {
    return truncate<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

template <typename From, typename To>
void cast_all(const Cast& p) noexcept {
  const auto* input = static_cast<const From*>(p.input);
  auto* output = static_cast<To*>(p.output);
  for (size_t i = 0; i < p.count; ++i) output[i] = cast_one<To>(input[i]);
}

template <typename From>
void cast_from(const Cast& p) noexcept {
  switch (p.to) {
    case CastType::f32: return cast_all<From, float>(p);
    case CastType::i8: return cast_all<From, int8_t>(p);
    case CastType::i32: return cast_all<From, int32_t>(p);
    case CastType::i64: return cast_all<From, int64_t>(p);
    case CastType::u8: return cast_all<From, uint8_t>(p);
    case CastType::boolean: return cast_all<From, Truth>(p);
  }
}

}  // namespace

void cast_scalar(const Cast& p) noexcept {
  switch (p.from) {
    case CastType::f32: return cast_from<float>(p);
    case CastType::i8: return cast_from<int8_t>(p);
    case CastType::i32: return cast_from<int32_t>(p);
    case CastType::i64: return cast_from<int64_t>(p);
    case CastType::u8: return cast_from<uint8_t>(p);
    case CastType::boolean: return cast_from<Truth>(p);
  }
}

}  // namespace alcove::kernels
