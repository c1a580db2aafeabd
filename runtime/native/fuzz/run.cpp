// Fuzzes running programs that open, with any inputs, for crashes, hangs and accesses out of bounds.  Every tensor lies in a block
// of its own in one of three sessions, another has threads, and all must give the same answer.
#include "fuzz/inputs.h"
#include "fuzz/parts.h"

extern "C" {
bool fuzz_has_tail = true;

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const size_t whole = alcove::fuzz::program_bytes(data, size);
  auto model = alcove::Model::open(alcove::Bytes::copy_of(data, whole));
  if (!model.is_ok()) return 0;
  (void)model.value()->check_weights();
  alcove::fuzz::Choices choices(data + whole, size - whole);
  alcove::fuzz::run_all_ways(model.value(), choices);
  return 0;
}
}
