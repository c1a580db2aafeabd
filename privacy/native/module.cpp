// The Python module `alcove.privacy._native`: convert, call, convert. `privacy/_native.pyi` describes it.
#include <nanobind/nanobind.h>

#include "prio3.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace alcove::privacy {

namespace {

Bytes view(const nb::bytes& bytes) { return {static_cast<const uint8_t*>(bytes.data()), bytes.size()}; }

// Nothing is read beyond what the caller has: sizes are checked here too.
Bytes view(const nb::bytes& bytes, size_t size) {
  if (bytes.size() != size) throw nb::value_error("a message has another size");
  return view(bytes);
}

nb::bytes copy(Bytes bytes) { return nb::bytes(bytes.data(), bytes.size()); }

struct NativePrio3 {
  std::unique_ptr<const Prio3> core;
  Parameters parameters;
};

void make(NativePrio3* self, uint32_t circuit, uint32_t algorithm_id, size_t element_bytes, uint8_t shares,
          uint8_t proofs, size_t measurement_length, size_t chunk_length, size_t output_length, nb::bytes weights) {
  const Bytes encoded = view(weights);
  Parameters parameters = {static_cast<Circuit>(circuit),
                           algorithm_id,
                           element_bytes == 16,
                           shares,
                           proofs,
                           measurement_length,
                           chunk_length,
                           output_length,
                           {encoded.begin(), encoded.end()}};
  new (self) NativePrio3{Prio3::make(parameters), parameters};
}

nb::tuple shard(const NativePrio3& self, nb::bytes context, nb::bytes bits, nb::bytes nonce, nb::bytes rand) {
  const Bytes given_context = view(context), given_bits = view(bits, self.parameters.measurement_length),
              given_nonce = view(nonce, 16), given_rand = view(rand, self.core->rand_bytes());
  Sharding sharding;
  {
    nb::gil_scoped_release free_threads;
    sharding = self.core->shard(given_context, given_bits, given_nonce, given_rand);
  }
  nb::list shares;
  for (const auto& share : sharding.input_shares) shares.append(copy(share));
  return nb::make_tuple(copy(sharding.public_share), nb::tuple(shares));
}

nb::list verify_init(const NativePrio3& self, nb::bytes verify_key, nb::bytes context, uint8_t aggregator,
                     nb::list reports) {
  struct Report {
    Bytes nonce, public_share, input_share;
  };
  const Bytes given_key = view(verify_key, kSeedBytes), given_context = view(context);
  if (aggregator >= self.parameters.shares) throw nb::value_error("there is no such aggregator");
  std::vector<Report> given;
  for (nb::handle each : reports) {
    const auto report = nb::cast<nb::tuple>(each);
    given.push_back({view(nb::cast<nb::bytes>(report[0]), 16),
                     view(nb::cast<nb::bytes>(report[1]), self.core->public_share_bytes()),
                     view(nb::cast<nb::bytes>(report[2]), self.core->input_share_bytes(aggregator))});
  }
  std::vector<Verification> found;
  {
    nb::gil_scoped_release free_threads;
    for (const Report& report : given) {
      found.push_back(self.core->verify_init(given_key, given_context, aggregator, report.nonce, report.public_share,
                                             report.input_share));
    }
  }
  nb::list results;
  for (const Verification& each : found) {
    results.append(nb::make_tuple(static_cast<int>(each.outcome), copy(each.output_share), copy(each.joint_rand_seed),
                                  copy(each.verifier_share)));
  }
  return results;
}

nb::list combine(const NativePrio3& self, nb::bytes context, nb::list reports) {
  const Bytes given_context = view(context);
  std::vector<std::vector<Bytes>> given;
  for (nb::handle each : reports) {
    auto& shares = given.emplace_back();
    for (nb::handle share : nb::cast<nb::list>(each)) {
      shares.push_back(view(nb::cast<nb::bytes>(share), self.core->verifier_share_bytes()));
    }
  }
  std::vector<std::pair<Outcome, std::vector<uint8_t>>> found;
  {
    nb::gil_scoped_release free_threads;
    for (const auto& shares : given) {
      auto& [outcome, message] = found.emplace_back();
      outcome = self.core->combine(given_context, shares, message);
    }
  }
  nb::list results;
  for (const auto& [outcome, message] : found) {
    results.append(nb::make_tuple(static_cast<int>(outcome), copy(message)));
  }
  return results;
}

nb::tuple aggregate(const NativePrio3& self, nb::list output_shares) {
  std::vector<Bytes> given;
  for (nb::handle each : output_shares) {
    given.push_back(view(nb::cast<nb::bytes>(each), self.core->output_share_bytes()));
  }
  std::vector<uint8_t> sum(self.core->output_share_bytes());
  auto outcome = Outcome::ok;
  {
    nb::gil_scoped_release free_threads;
    for (const Bytes share : given) {
      outcome = self.core->add(sum, share);
      if (outcome != Outcome::ok) break;
    }
  }
  return nb::make_tuple(static_cast<int>(outcome), copy(sum));
}

}  // namespace

}  // namespace alcove::privacy

NB_MODULE(_native, m) {
  using namespace alcove::privacy;
  nb::class_<NativePrio3>(m, "NativePrio3")
      .def("__init__", &make, "circuit"_a, "algorithm_id"_a, "element_bytes"_a, "shares"_a, "proofs"_a,
           "measurement_length"_a, "chunk_length"_a, "output_length"_a, "weights"_a)
      .def("shard", &shard, "context"_a, "bits"_a, "nonce"_a, "rand"_a)
      .def("verify_init", &verify_init, "verify_key"_a, "context"_a, "aggregator"_a, "reports"_a)
      .def("combine", &combine, "context"_a, "reports"_a)
      .def("aggregate", &aggregate, "output_shares"_a);
}
