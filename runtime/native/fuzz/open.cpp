// Fuzzes the verifier: any bytes are accepted, or refused by a code, without a crash, a hang or a read beyond them.
#include <cstdlib>

#include "core/verify.h"

extern "C" {
bool fuzz_has_tail = false;

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto verified = alcove::verify(data, size);
  if (!verified.is_ok()) {
    // Why, in words and by a name: never empty.
    if (verified.status().code == alcove::Code::ok) std::abort();
    return 0;
  }
  return 0;
}
}
