// Bounds the size of programs: every cap of the format, with its reason.  They bound the time and memory of opening any
// bytes whatever; a file beyond one is refused with the cap's name.  docs/format.md repeats them.
#pragma once

#include <cstdint>

namespace alcove {

// Mobile models end well below; offsets stay far from any overflow of 64 bits.
inline constexpr uint64_t kMaxFileBytes = 1ull << 30;
// Version 2.1 knows four kinds; the rest is room for later optional ones.
inline constexpr uint32_t kMaxSections = 16;
// The section is copied and walked at every load: 16 MiB is milliseconds.
inline constexpr uint64_t kMaxProgramBytes = 16ull << 20;
// Prefill, decode, parts of an encoder and a decoder; each is a program to verify at every load.
inline constexpr uint32_t kMaxMethods = 16;
// 16 samples of text or small tensors; read at every install.
inline constexpr uint64_t kMaxCertificateBytes = 64ull << 10;
// Ten times the largest mobile graphs.
inline constexpr uint32_t kMaxTensors = 16384;
inline constexpr uint32_t kMaxOps = 16384;
// One bit each in a 64-bit mask of the inputs that were set.
inline constexpr uint32_t kMaxPorts = 64;
// A whole ImageNet-22k of names, three times.
inline constexpr uint32_t kMaxLabels = 65536;
// Two for each layer of a deep model that keeps its past.
inline constexpr uint32_t kMaxStates = 1024;
// Batch, height, width, length, and room; slots in a fixed-size record.
inline constexpr uint32_t kMaxSymbols = 16;
// All are evaluated when a size changes: microseconds.
inline constexpr uint32_t kMaxExpressions = 16384;
// A memory plan each; doubling sizes go a long way.
inline constexpr uint32_t kMaxBuckets = 16;
// Names are for people; errors quote them.
inline constexpr uint32_t kMaxNameBytes = 255;
inline constexpr uint32_t kMaxSourceBytes = 1023;
inline constexpr uint32_t kMaxLabelBytes = 255;
// Slots in a fixed-size record.
inline constexpr uint32_t kMaxRank = 8;
// Codes index a table.
inline constexpr uint32_t kMaxOpCode = 255;
inline constexpr uint32_t kMaxOpInputs = 16;
inline constexpr uint32_t kMaxOpOutputs = 4;
inline constexpr uint32_t kMaxOpAttributes = 20;
// Indices in kernels are int32.
inline constexpr uint32_t kMaxDimension = 0x7FFFFFFF;
// Desktops and tablets; a phone ends an app at a few hundred MB, which its own limit of a session's memory says.
inline constexpr uint64_t kMaxArenaBytes = 512ull << 20;
// int32 sums of int8 hold for 2^24 rows; 2^20 ids of one bag is already a 4 MiB text.
inline constexpr uint32_t kMaxBagIds = 1u << 20;
// Op budget: elementary operations of one run, over all ops, each about a nanosecond of one core or less (docs/robustness.md measures it): seconds,
// so that no file can hang its host.  Room for 2^36 multiply-adds of dense products, of which an operation is four.
inline constexpr uint64_t kOpBudget = 1ull << 34;
// Of one op that can't be stopped within: a run that is cancelled ends about two seconds later at the worst.
inline constexpr uint64_t kUnstoppableOpBudget = 1ull << 31;

// A cache line, and the widest register.
inline constexpr uint64_t kTensorAlignment = 64;
// Pages of 16 KiB on newer phones: weights can be mapped by themselves.
inline constexpr uint64_t kWeightsAlignment = 16384;
inline constexpr uint64_t kSectionAlignment = 64;

}  // namespace alcove
