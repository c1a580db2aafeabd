// Which instruction sets does this machine have, and what are they called?
#pragma once

#include <cstdint>
#include <string_view>

namespace alcove::kernels {

// In order of preference; the numbers are used as indices.
enum class Isa : uint8_t { scalar = 0, avx2 = 1, avx512 = 2 };
inline constexpr int kIsaCount = 3;

[[nodiscard]] const char* isa_name(Isa isa) noexcept;

// Sets `isa` and returns true if `name` is one of the names; otherwise returns false and leaves `isa` alone.
[[nodiscard]] bool isa_from_name(std::string_view name, Isa& isa) noexcept;

// avx2 means AVX2 and FMA; avx512 means F, BW, DQ and VL, as in servers since 2017 and laptops since 2019.
[[nodiscard]] bool machine_has(Isa isa) noexcept;

[[nodiscard]] Isa best_isa() noexcept;

}  // namespace alcove::kernels
