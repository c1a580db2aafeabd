// Prio3 for aggregators: what `privacy/prio3/vdaf.py` does, byte for byte, for the circuits of the draft, all of whose
// gadgets have degree 2. A `Prio3` is immutable; any number of threads may use one.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "turboshake.h"

namespace alcove::privacy {

enum class Circuit : uint32_t { count = 1, sum = 2, sum_vec = 3, histogram = 4, multihot_count_vec = 5 };

// What an instance is of. Lengths are those that `privacy/prio3/circuits.py` has checked.
struct Parameters {
  Circuit circuit;
  uint32_t algorithm_id;  // in tags; the circuit's own but for experiments
  bool is_field128;
  uint8_t shares;  // aggregators, at least 2
  uint8_t proofs;  // at least 1
  size_t measurement_length;
  size_t chunk_length;           // 1 for count and sum
  size_t output_length;          // sums of bits by `weights` (sum, sum_vec), else the first elements
  std::vector<uint8_t> weights;  // of an integer's bits, encoded elements; empty where there is no such integer
};

enum class Outcome { ok, element_too_large, test_point_is_root, proof_does_not_hold };

struct Sharding {
  std::vector<uint8_t> public_share;
  std::vector<std::vector<uint8_t>> input_shares;
};

struct Verification {
  Outcome outcome = Outcome::ok;
  std::vector<uint8_t> output_share;
  std::vector<uint8_t> joint_rand_seed;  // empty without joint randomness
  std::vector<uint8_t> verifier_share;
};

class Prio3 {
 public:
  static std::unique_ptr<const Prio3> make(Parameters parameters);
  virtual ~Prio3() = default;

  // Sizes of messages in bytes; all arguments below have exactly these.
  virtual size_t public_share_bytes() const = 0;
  virtual size_t input_share_bytes(uint8_t aggregator) const = 0;
  virtual size_t verifier_share_bytes() const = 0;
  virtual size_t output_share_bytes() const = 0;
  virtual size_t rand_bytes() const = 0;

  // `bits`: the encoded measurement, a byte an element.
  virtual Sharding shard(Bytes context, Bytes bits, Bytes nonce, Bytes rand) const = 0;
  virtual Verification verify_init(Bytes verify_key, Bytes context, uint8_t aggregator, Bytes nonce, Bytes public_share,
                                   Bytes input_share) const = 0;
  // `message` is empty without joint randomness.
  virtual Outcome combine(Bytes context, const std::vector<Bytes>& verifier_shares,
                          std::vector<uint8_t>& message) const = 0;
  // Adds an encoded output share to an encoded sum.
  virtual Outcome add(std::vector<uint8_t>& sum, Bytes output_share) const = 0;
};

}  // namespace alcove::privacy
