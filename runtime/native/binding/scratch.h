// How much scratch an operator needs, by the formulas that its rule and its kernel use.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nanobind/nanobind.h>

namespace alcove::binding {

// `sizes` are named as in `runtime/_native.pyi`.
[[nodiscard]] uint64_t scratch_bytes(const std::string& op, const nanobind::kwargs& sizes);

}  // namespace alcove::binding
