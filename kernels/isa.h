// Names the instruction sets, and detects those that this machine has.
#pragma once

#include <cstdint>
#include <string_view>

namespace alcove::kernels {

// In order of preference among those of one processor; the numbers are used as indices.
enum class Isa : uint8_t {
  scalar = 0,
  avx2 = 1,
  avx512 = 2,
  avx512_vnni = 3,
  avx512_vbmi = 4,
  neon = 5,
  neon_dotprod = 6,
  neon_i8mm = 7
};
inline constexpr int kIsaCount = 8;
// As a message lists them, in order.
inline constexpr const char* kIsaNames =
    "scalar, avx2, avx512, avx512_vnni, avx512_vbmi, neon, neon_dotprod, neon_i8mm";

[[nodiscard]] const char* isa_name(Isa isa) noexcept;

// Sets `isa` and returns true if `name` is one of the names; otherwise returns false and leaves `isa` alone.
[[nodiscard]] bool isa_from_name(std::string_view name, Isa& isa) noexcept;

// avx2 means AVX2 and FMA; avx512 means F, BW, DQ and VL, as in servers since 2017 and laptops since 2019; avx512_vnni the
// products of bytes besides, as in servers since 2019; avx512_vbmi permutations of bytes besides, as in both since 2021.
// neon means Advanced SIMD, which every 64-bit ARM processor has; neon_dotprod the products of bytes besides, as in phones
// since 2018; neon_i8mm products of matrices of bytes besides, as in phones since 2021.
[[nodiscard]] bool machine_has(Isa isa) noexcept;

[[nodiscard]] Isa best_isa() noexcept;

}  // namespace alcove::kernels
