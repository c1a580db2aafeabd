// SHA-256 (FIPS 180-4) of bytes in memory: for sections, never for passwords or secrets (not constant in time by design).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace alcove {

using Digest = std::array<uint8_t, 32>;

[[nodiscard]] Digest sha256(const uint8_t* data, size_t size) noexcept;

// The two ways to do it, for the test that they agree; sha256() takes the faster that the machine has.
[[nodiscard]] Digest sha256_portable(const uint8_t* data, size_t size) noexcept;
[[nodiscard]] bool has_sha_instructions() noexcept;
// Precondition: has_sha_instructions().
[[nodiscard]] Digest sha256_instructions(const uint8_t* data, size_t size) noexcept;

}  // namespace alcove
