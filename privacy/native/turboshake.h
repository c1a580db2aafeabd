// TurboSHAKE128 as a stream (RFC 9861, section 2), and the XOF of the VDAF draft over it (section 6.2.1 of
// draft-irtf-cfrg-vdaf): `privacy/prio3/xof.py` is the readable form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace alcove::privacy {

using Bytes = std::span<const uint8_t>;

inline constexpr size_t kSeedBytes = 32;

class Xof {
 public:
  // `tag` has at most 65,535 bytes, `seed` at most 255: the caller has checked.
  Xof(Bytes seed, Bytes tag);

  // Adds to the binder string; all of it before the first `next`.
  void absorb(Bytes bytes);
  void absorb(uint8_t byte) { absorb(Bytes(&byte, 1)); }

  // Writes the next bytes of the stream.
  void next(std::span<uint8_t> out);

 private:
  static constexpr size_t kRate = 168;

  void finish();
  void permute();

  uint64_t lanes_[25] = {};
  size_t at_ = 0;  // in the block that is being absorbed or squeezed
  bool is_finished_ = false;
};

}  // namespace alcove::privacy
