#include <cstring>

#include "kernels/microkernels/detokenize/detokenize.h"
#include "kernels/microkernels/tokenize/table.h"

namespace alcove::kernels {

DetokenizeResult detokenize(const Detokenize& a) noexcept {
  tokens::Table table;
  if (!table.open(a.table, a.table_size)) return {DetokenizeStatus::invalid_table, 0, 0, 0, 0};
  size_t size = 0, needed = 0;
  bool has_room = true;
  for (size_t i = 0; i < a.count; ++i) {
    if (a.ids[i] < 0 || a.ids[i] >= int64_t{table.vocabulary}) {
      return {DetokenizeStatus::bad_id, i, size, needed, table.vocabulary};
    }
    const std::string_view text = table.texts[static_cast<size_t>(a.ids[i])];
    needed += text.size();
    has_room = has_room && text.size() <= a.capacity - size;
    if (!has_room) continue;
    if (!text.empty()) std::memcpy(a.bytes + size, text.data(), text.size());
    size += text.size();
  }
  if (size < a.capacity) std::memset(a.bytes + size, 0, a.capacity - size);
  return {DetokenizeStatus::ok, 0, size, needed, table.vocabulary};
}

}  // namespace alcove::kernels
