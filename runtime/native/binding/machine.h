// Measures the machine's peak rates by kernels/microkernels/peak, for the instruction set of this process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace alcove::binding {

// Multiply-adds a nanosecond of one thread, of "f32" or "i8", measured for at least so long.  Without the GIL.
double peak_rate(const std::string& dtype, int64_t least_ns);
// Bytes a nanosecond that one thread reads of a block of about that size, read over and over for at least so long.
double read_rate(size_t size_bytes, int64_t least_ns);
// Nanoseconds that it takes to read the clock of a profiled run.
double clock_ns();

}  // namespace alcove::binding
