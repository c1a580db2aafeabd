#include "prio3.h"

#include <algorithm>
#include <bit>

#include "fields.h"

namespace alcove::privacy {

namespace {

constexpr uint8_t kVersion = 18;

enum class Usage : uint8_t {
  measurement_share = 1,
  proof_share,
  joint_randomness,
  prove_randomness,
  query_randomness,
  joint_rand_seed,
  joint_rand_part,
};

using Buffer = std::vector<uint8_t>;

template <typename F>
using Vector = std::vector<F>;

template <typename F>
Vector<F> powers_of_root(size_t n) {
  F root = F::generator();
  for (int order = F::kLogOrder; order > std::countr_zero(n); --order) root = root * root;
  Vector<F> powers(n, F::from(1));
  for (size_t i = 1; i < n; ++i) powers[i] = powers[i - 1] * root;
  return powers;
}

template <typename F>
F invert(F element) {
  return element.power(F::inversion_exponent());
}

// Replaces the elements, none of which is 0, by their inverses (Montgomery's trick).
template <typename F>
void invert_all(Vector<F>& elements) {
  Vector<F> products(elements.size() + 1, F::from(1));
  for (size_t i = 0; i < elements.size(); ++i) products[i + 1] = products[i] * elements[i];
  F running = invert(products.back());
  for (size_t i = elements.size(); i-- > 0;) {
    const F element = elements[i];
    elements[i] = running * products[i];
    running = running * element;
  }
}

template <typename F>
F dot(const F* left, const F* right, size_t n) {
  F sum;
  for (size_t i = 0; i < n; ++i) sum = sum + left[i] * right[i];
  return sum;
}

// In place; `roots` are the n powers of the principal root.
template <typename F>
void transform(Vector<F>& values, const Vector<F>& roots) {
  const size_t n = values.size();
  for (size_t i = 1, j = 0; i < n; ++i) {
    size_t bit = n >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) std::swap(values[i], values[j]);
  }
  for (size_t half = 1; half < n; half *= 2) {
    const size_t stride = n / (2 * half);
    for (size_t start = 0; start < n; start += 2 * half) {
      for (size_t i = 0; i < half; ++i) {
        const F even = values[start + i];
        const F odd = values[start + half + i] * roots[i * stride];
        values[start + i] = even + odd;
        values[start + half + i] = even - odd;
      }
    }
  }
}

// The wires of the gadget: value 0 of each is its seed, value k its input at call k, the rest 0.
template <typename F>
struct Wires {
  size_t arity, length;
  Vector<F> values;  // wire by wire

  Wires(const F* seeds, size_t arity, size_t length) : arity(arity), length(length), values(arity * length) {
    for (size_t wire = 0; wire < arity; ++wire) values[wire * length] = seeds[wire];
  }
  F& at(size_t wire, size_t call) { return values[wire * length + call]; }
  const F* of(size_t wire) const { return &values[wire * length]; }
};

template <typename F>
class Instance final : public Prio3 {
 public:
  explicit Instance(Parameters given) : p_(std::move(given)) {
    is_range_ = p_.circuit == Circuit::sum;
    has_joint_rand_ = p_.circuit != Circuit::count && p_.circuit != Circuit::sum;
    arity_ = is_range_ ? 1 : 2 * p_.chunk_length;
    calls_ = (p_.measurement_length + p_.chunk_length - 1) / p_.chunk_length;
    joint_rand_length_ = has_joint_rand_ ? calls_ : 0;
    checks_ = is_range_                                                                       ? calls_
              : p_.circuit == Circuit::histogram || p_.circuit == Circuit::multihot_count_vec ? 2
                                                                                              : 1;
    wire_length_ = std::bit_ceil(1 + calls_);
    gadget_length_ = 2 * (wire_length_ - 1) + 1;
    proof_length_ = arity_ + gadget_length_;
    verifier_length_ = arity_ + 2;
    query_rand_length_ = (checks_ > 1 ? checks_ : 0) + 1;
    wire_roots_ = powers_of_root<F>(wire_length_);
    output_roots_ = powers_of_root<F>(2 * wire_length_);
    one_share_ = invert(F::from(p_.shares));
    wire_scale_ = invert(F::from(wire_length_));
    output_scale_ = invert(F::from(2 * wire_length_));
    for (size_t at = 0; at < p_.weights.size(); at += F::kBytes) {
      F::read(&p_.weights[at], weights_.emplace_back());
    }
  }

  size_t public_share_bytes() const override { return has_joint_rand_ ? kSeedBytes * p_.shares : 0; }
  size_t input_share_bytes(uint8_t aggregator) const override {
    const size_t blind = has_joint_rand_ ? kSeedBytes : 0;
    if (aggregator > 0) return kSeedBytes + blind;
    return (p_.measurement_length + proof_length_ * p_.proofs) * F::kBytes + blind;
  }
  size_t verifier_share_bytes() const override {
    return verifier_length_ * p_.proofs * F::kBytes + (has_joint_rand_ ? kSeedBytes : 0);
  }
  size_t output_share_bytes() const override { return p_.output_length * F::kBytes; }
  size_t rand_bytes() const override { return kSeedBytes * p_.shares * (has_joint_rand_ ? 2 : 1); }

  Sharding shard(Bytes context, Bytes bits, Bytes nonce, Bytes rand) const override {
    const auto seed = [&](size_t index) { return rand.subspan(index * kSeedBytes, kSeedBytes); };
    const size_t stride = has_joint_rand_ ? 2 : 1;
    const size_t seeds = rand.size() / kSeedBytes;
    Vector<F> measurement;
    for (const uint8_t bit : bits) measurement.push_back(F::from(bit));
    Vector<F> leader = measurement;
    Sharding result;
    result.input_shares.resize(p_.shares);
    Buffer parts(public_share_bytes());
    for (uint8_t helper = 1; helper < p_.shares; ++helper) {
      const Bytes helper_seed = seed((helper - 1) * stride);
      const Vector<F> share = expand_measurement(context, helper, helper_seed);
      for (size_t i = 0; i < share.size(); ++i) leader[i] = leader[i] - share[i];
      append(result.input_shares[helper], helper_seed);
      if (!has_joint_rand_) continue;
      const Bytes blind = seed((helper - 1) * stride + 1);
      append(result.input_shares[helper], blind);
      joint_rand_part(context, helper, blind, nonce, encode(share), &parts[helper * kSeedBytes]);
    }
    Buffer& leader_share = result.input_shares[0];
    leader_share = encode(leader);
    Vector<F> joint_rand;
    if (has_joint_rand_) {
      joint_rand_part(context, 0, seed(seeds - 2), nonce, leader_share, parts.data());
      joint_rand = joint_rands(context, joint_rand_seed(context, parts));
    }
    Xof xof = stream(seed(seeds - 1), context, Usage::prove_randomness);
    xof.absorb(p_.proofs);
    const Vector<F> prove_rand = next_vector(xof, arity_ * p_.proofs);
    Vector<F> proofs;
    for (size_t i = 0; i < p_.proofs; ++i) {
      prove(measurement, &prove_rand[i * arity_], joint_rand.data() + i * joint_rand_length_, proofs);
    }
    for (uint8_t helper = 1; helper < p_.shares; ++helper) {
      const Vector<F> share = expand_proofs(context, helper, seed((helper - 1) * stride));
      for (size_t i = 0; i < share.size(); ++i) proofs[i] = proofs[i] - share[i];
    }
    append(leader_share, encode(proofs));
    if (has_joint_rand_) append(leader_share, seed(seeds - 2));
    result.public_share = std::move(parts);
    return result;
  }

  Verification verify_init(Bytes verify_key, Bytes context, uint8_t aggregator, Bytes nonce, Bytes public_share,
                           Bytes input_share) const override {
    Verification result;
    Vector<F> measurement, proofs;
    Bytes blind;
    if (aggregator == 0) {
      const size_t measured = p_.measurement_length * F::kBytes;
      const size_t proved = proof_length_ * p_.proofs * F::kBytes;
      if (!decode(input_share.first(measured), measurement) || !decode(input_share.subspan(measured, proved), proofs)) {
        return {Outcome::element_too_large, {}, {}, {}};
      }
      blind = input_share.subspan(measured + proved);
    } else {
      measurement = expand_measurement(context, aggregator, input_share.first(kSeedBytes));
      proofs = expand_proofs(context, aggregator, input_share.first(kSeedBytes));
      blind = input_share.subspan(kSeedBytes);
    }
    Buffer parts(public_share.begin(), public_share.end());
    Vector<F> joint_rand;
    if (has_joint_rand_) {
      // The own part is computed, never taken from the client.
      uint8_t* own = &parts[aggregator * kSeedBytes];
      const Buffer share = aggregator == 0
                               ? Buffer(input_share.begin(),
                                        input_share.begin() + static_cast<ptrdiff_t>(p_.measurement_length * F::kBytes))
                               : encode(measurement);
      joint_rand_part(context, aggregator, blind, nonce, share, own);
      result.joint_rand_seed = joint_rand_seed(context, parts);
      joint_rand = joint_rands(context, result.joint_rand_seed);
    }
    Xof xof = stream(verify_key, context, Usage::query_randomness);
    xof.absorb(p_.proofs);
    xof.absorb(nonce);
    const Vector<F> query_rand = next_vector(xof, query_rand_length_ * p_.proofs);
    Vector<F> verifiers;
    for (size_t i = 0; i < p_.proofs; ++i) {
      if (!query(measurement, &proofs[i * proof_length_], &query_rand[i * query_rand_length_],
                 joint_rand.data() + i * joint_rand_length_, verifiers)) {
        return {Outcome::test_point_is_root, {}, {}, {}};
      }
    }
    result.output_share = encode(truncate(measurement));
    result.verifier_share = encode(verifiers);
    if (has_joint_rand_) append(result.verifier_share, Bytes(&parts[aggregator * kSeedBytes], kSeedBytes));
    return result;
  }

  Outcome combine(Bytes context, const std::vector<Bytes>& verifier_shares, Buffer& message) const override {
    const size_t size = verifier_length_ * p_.proofs * F::kBytes;
    Vector<F> verifiers(verifier_length_ * p_.proofs), share;
    Buffer parts;
    for (const Bytes bytes : verifier_shares) {
      if (!decode(bytes.first(size), share)) return Outcome::element_too_large;
      for (size_t i = 0; i < share.size(); ++i) verifiers[i] = verifiers[i] + share[i];
      append(parts, bytes.subspan(size));
    }
    for (size_t i = 0; i < p_.proofs; ++i) {
      if (!decide(&verifiers[i * verifier_length_])) return Outcome::proof_does_not_hold;
    }
    message = has_joint_rand_ ? joint_rand_seed(context, parts) : Buffer();
    return Outcome::ok;
  }

  Outcome add(Buffer& sum, Bytes output_share) const override {
    Vector<F> left, right;
    if (!decode(sum, left) || !decode(output_share, right)) return Outcome::element_too_large;
    for (size_t i = 0; i < left.size(); ++i) left[i] = left[i] + right[i];
    sum = encode(left);
    return Outcome::ok;
  }

 private:
  // The proof system.

  F evaluate_gadget(const F* inputs, size_t stride) const {
    if (is_range_) return inputs[0] * inputs[0] - inputs[0];
    F sum;
    for (size_t i = 0; i < arity_; i += 2) sum = sum + inputs[i * stride] * inputs[(i + 1) * stride];
    return sum;
  }

  // Writes the inputs of all calls; returns what each of the circuit's checks is but for the gadget's outputs.
  Vector<F> fill_wires(Wires<F>& wires, const Vector<F>& measurement, const F* joint_rand, F one_share) const {
    if (is_range_) {
      for (size_t i = 0; i < measurement.size(); ++i) wires.at(0, i + 1) = measurement[i];
      return Vector<F>(checks_);
    }
    if (p_.circuit == Circuit::count) {
      wires.at(0, 1) = wires.at(1, 1) = measurement[0];
      return {F() - measurement[0]};
    }
    for (size_t call = 0; call < calls_; ++call) {
      const F r = joint_rand[call];
      F power = r;
      for (size_t j = 0; j < p_.chunk_length; ++j) {
        const size_t index = call * p_.chunk_length + j;
        const F bit = index < measurement.size() ? measurement[index] : F();
        wires.at(2 * j, call + 1) = power * bit;
        wires.at(2 * j + 1, call + 1) = bit - one_share;
        power = power * r;
      }
    }
    Vector<F> checks(checks_);
    if (checks_ == 2) {
      const size_t counted = p_.output_length;
      for (size_t i = 0; i < counted; ++i) checks[1] = checks[1] + measurement[i];
      checks[1] =
          checks[1] -
          (p_.circuit == Circuit::histogram ? one_share : dot(weights_.data(), &measurement[counted], weights_.size()));
    }
    return checks;
  }

  void prove(const Vector<F>& measurement, const F* prove_rand, const F* joint_rand, Vector<F>& proof) const {
    Wires<F> wires(prove_rand, arity_, wire_length_);
    fill_wires(wires, measurement, joint_rand, F::from(1));
    proof.insert(proof.end(), prove_rand, prove_rand + arity_);
    // Values at odd powers of the root of twice the order: shift the coefficients, transform.
    Wires<F> odd = wires;
    Vector<F> values(wire_length_);
    for (size_t wire = 0; wire < arity_; ++wire) {
      std::copy_n(wires.of(wire), wire_length_, values.begin());
      transform(values, wire_roots_);
      std::reverse(values.begin() + 1, values.end());
      for (size_t i = 0; i < wire_length_; ++i) values[i] = values[i] * wire_scale_ * output_roots_[i];
      transform(values, wire_roots_);
      std::copy_n(values.begin(), wire_length_, odd.values.begin() + static_cast<ptrdiff_t>(wire * wire_length_));
    }
    for (size_t i = 0; i < gadget_length_; ++i) {
      const Wires<F>& at = i % 2 == 0 ? wires : odd;
      proof.push_back(evaluate_gadget(at.of(0) + i / 2, wire_length_));
    }
  }

  bool query(const Vector<F>& measurement, const F* proof, const F* query_rand, const F* joint_rand,
             Vector<F>& verifier) const {
    const size_t n = 2 * wire_length_;
    Vector<F> outputs(proof + arity_, proof + proof_length_);
    // The one value that is not sent: the highest coefficient of 2n is zero, so values times roots add up to zero.
    F missing;
    for (size_t i = 0; i < gadget_length_; ++i) missing = missing - outputs[i] * output_roots_[(i + 1) % n];
    outputs.push_back(missing);
    Wires<F> wires(proof, arity_, wire_length_);
    Vector<F> checks = fill_wires(wires, measurement, joint_rand, one_share_);
    for (size_t call = 0; call < calls_; ++call) {
      F& check = checks[is_range_ ? call : 0];
      check = check + outputs[2 * (call + 1)];
    }
    const F reduced = checks_ > 1 ? dot(query_rand, checks.data(), checks_) : checks[0];
    Vector<F> at_wires, at_outputs;
    const F point = query_rand[query_rand_length_ - 1];
    if (!weights_at(point, wire_roots_, wire_scale_, at_wires) ||
        !weights_at(point, output_roots_, output_scale_, at_outputs)) {
      return false;
    }
    verifier.push_back(reduced);
    for (size_t wire = 0; wire < arity_; ++wire) verifier.push_back(dot(at_wires.data(), wires.of(wire), wire_length_));
    verifier.push_back(dot(at_outputs.data(), outputs.data(), n));
    return true;
  }

  bool decide(const F* verifier) const {
    return verifier[0] == F() && evaluate_gadget(verifier + 1, 1) == verifier[arity_ + 1];
  }

  // The weights whose dot product with a polynomial's values is its value at `point`; false where that is a root.
  static bool weights_at(F point, const Vector<F>& roots, F scale, Vector<F>& weights) {
    F power = point;
    for (size_t n = roots.size(); n > 1; n /= 2) power = power * power;
    if (power == F::from(1)) return false;
    weights.clear();
    for (const F root : roots) weights.push_back(point - root);
    invert_all(weights);
    const F factor = (power - F::from(1)) * scale;
    for (size_t i = 0; i < roots.size(); ++i) weights[i] = weights[i] * roots[i] * factor;
    return true;
  }

  Vector<F> truncate(const Vector<F>& measurement) const {
    if (p_.circuit != Circuit::sum && p_.circuit != Circuit::sum_vec) {
      return Vector<F>(measurement.begin(), measurement.begin() + static_cast<ptrdiff_t>(p_.output_length));
    }
    Vector<F> output;
    for (size_t at = 0; at < measurement.size(); at += weights_.size()) {
      output.push_back(dot(weights_.data(), &measurement[at], weights_.size()));
    }
    return output;
  }

  // Seeds and what they expand to.

  Xof stream(Bytes seed, Bytes context, Usage usage) const {
    Buffer tag = {kVersion, 0};
    for (int shift = 24; shift >= 0; shift -= 8) tag.push_back(static_cast<uint8_t>(p_.algorithm_id >> shift));
    tag.push_back(0);
    tag.push_back(static_cast<uint8_t>(usage));
    append(tag, context);
    return Xof(seed, tag);
  }

  static Vector<F> next_vector(Xof& xof, size_t length) {
    Vector<F> vector(length);
    uint8_t bytes[F::kBytes];
    for (F& element : vector) {
      do {
        xof.next(bytes);
      } while (!F::read(bytes, element));
    }
    return vector;
  }

  Vector<F> expand_measurement(Bytes context, uint8_t aggregator, Bytes seed) const {
    Xof xof = stream(seed, context, Usage::measurement_share);
    xof.absorb(aggregator);
    return next_vector(xof, p_.measurement_length);
  }

  Vector<F> expand_proofs(Bytes context, uint8_t aggregator, Bytes seed) const {
    Xof xof = stream(seed, context, Usage::proof_share);
    xof.absorb(p_.proofs);
    xof.absorb(aggregator);
    return next_vector(xof, proof_length_ * p_.proofs);
  }

  void joint_rand_part(Bytes context, uint8_t aggregator, Bytes blind, Bytes nonce, Bytes share, uint8_t* out) const {
    Xof xof = stream(blind, context, Usage::joint_rand_part);
    xof.absorb(aggregator);
    xof.absorb(nonce);
    xof.absorb(share);
    xof.next(std::span<uint8_t>(out, kSeedBytes));
  }

  Buffer joint_rand_seed(Bytes context, Bytes parts) const {
    const uint8_t zeros[kSeedBytes] = {};
    Xof xof = stream(zeros, context, Usage::joint_rand_seed);
    xof.absorb(parts);
    Buffer seed(kSeedBytes);
    xof.next(seed);
    return seed;
  }

  Vector<F> joint_rands(Bytes context, Bytes seed) const {
    Xof xof = stream(seed, context, Usage::joint_randomness);
    xof.absorb(p_.proofs);
    return next_vector(xof, joint_rand_length_ * p_.proofs);
  }

  // Bytes.

  static void append(Buffer& to, Bytes bytes) { to.insert(to.end(), bytes.begin(), bytes.end()); }

  static Buffer encode(const Vector<F>& vector) {
    Buffer bytes(vector.size() * F::kBytes);
    for (size_t i = 0; i < vector.size(); ++i) vector[i].write(&bytes[i * F::kBytes]);
    return bytes;
  }

  static bool decode(Bytes bytes, Vector<F>& vector) {
    vector.resize(bytes.size() / F::kBytes);
    for (size_t i = 0; i < vector.size(); ++i) {
      if (!F::read(&bytes[i * F::kBytes], vector[i])) return false;
    }
    return true;
  }

  Parameters p_;
  bool is_range_;  // the gadget is x^2 - x of one wire, else a sum of products
  bool has_joint_rand_;
  size_t arity_, calls_, joint_rand_length_, checks_, wire_length_, gadget_length_, proof_length_, verifier_length_,
      query_rand_length_;
  Vector<F> wire_roots_, output_roots_, weights_;
  F one_share_, wire_scale_, output_scale_;
};

}  // namespace

std::unique_ptr<const Prio3> Prio3::make(Parameters parameters) {
  if (parameters.is_field128) return std::make_unique<Instance<Field128>>(std::move(parameters));
  return std::make_unique<Instance<Field64>>(std::move(parameters));
}

}  // namespace alcove::privacy
