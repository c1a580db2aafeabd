#include "turboshake.h"

#include <algorithm>
#include <bit>

namespace alcove::privacy {

namespace {

constexpr uint8_t kDomain = 1;

// The last 12 of Keccak-f[1600].
constexpr uint64_t kRoundConstants[12] = {
    0x000000008000808B, 0x800000000000008B, 0x8000000000008089, 0x8000000000008003,
    0x8000000000008002, 0x8000000000000080, 0x000000000000800A, 0x800000008000000A,
    0x8000000080008081, 0x8000000000008080, 0x0000000080000001, 0x8000000080008008,
};

// Rotations of the step rho, and where the step pi takes each lane, along its one cycle of 24 lanes.
constexpr int kRotations[24] = {1,  3,  6,  10, 15, 21, 28, 36, 45, 55, 2,  14,
                                27, 41, 56, 8,  25, 43, 62, 18, 39, 61, 20, 44};
constexpr int kTargets[24] = {10, 7, 11, 17, 18, 3, 5, 16, 8, 21, 24, 4, 15, 23, 19, 13, 12, 2, 20, 14, 22, 9, 6, 1};

// Lanes are little-endian on the wire, whatever the machine is.
uint64_t byte_in_lane(uint8_t byte, size_t at) { return static_cast<uint64_t>(byte) << (8 * (at % 8)); }

}  // namespace

Xof::Xof(Bytes seed, Bytes tag) {
  absorb(static_cast<uint8_t>(tag.size()));
  absorb(static_cast<uint8_t>(tag.size() >> 8));
  absorb(tag);
  absorb(static_cast<uint8_t>(seed.size()));
  absorb(seed);
}

void Xof::absorb(Bytes bytes) {
  for (const uint8_t byte : bytes) {
    lanes_[at_ / 8] ^= byte_in_lane(byte, at_);
    if (++at_ == kRate) {
      permute();
      at_ = 0;
    }
  }
}

void Xof::finish() {
  lanes_[at_ / 8] ^= byte_in_lane(kDomain, at_);
  lanes_[(kRate - 1) / 8] ^= byte_in_lane(0x80, kRate - 1);
  permute();
  at_ = 0;
  is_finished_ = true;
}

void Xof::next(std::span<uint8_t> out) {
  if (!is_finished_) finish();
  for (uint8_t& byte : out) {
    if (at_ == kRate) {
      permute();
      at_ = 0;
    }
    byte = static_cast<uint8_t>(lanes_[at_ / 8] >> (8 * (at_ % 8)));
    ++at_;
  }
}

void Xof::permute() {
  for (const uint64_t constant : kRoundConstants) {
    uint64_t column[5];
    for (int x = 0; x < 5; ++x) {
      column[x] = lanes_[x] ^ lanes_[x + 5] ^ lanes_[x + 10] ^ lanes_[x + 15] ^ lanes_[x + 20];
    }
    for (int x = 0; x < 5; ++x) {
      const uint64_t mix = column[(x + 4) % 5] ^ std::rotl(column[(x + 1) % 5], 1);
      for (int y = 0; y < 25; y += 5) lanes_[x + y] ^= mix;
    }
    uint64_t carried = lanes_[1];
    for (int step = 0; step < 24; ++step) {
      std::swap(carried, lanes_[kTargets[step]]);
      lanes_[kTargets[step]] = std::rotl(lanes_[kTargets[step]], kRotations[step]);
    }
    for (int y = 0; y < 25; y += 5) {
      uint64_t row[5];
      std::copy_n(lanes_ + y, 5, row);
      for (int x = 0; x < 5; ++x) lanes_[x + y] = row[x] ^ (~row[(x + 1) % 5] & row[(x + 2) % 5]);
    }
    lanes_[0] ^= constant;
  }
}

}  // namespace alcove::privacy
