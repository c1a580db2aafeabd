// Reads Python's texts without a copy; hashes and tokenizes them outside programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nanobind/nanobind.h>

#include "core/status.h"

namespace alcove::binding {

// The name of an object's class, without its module: the stable interface of Python has no more.
std::string name_type(nanobind::handle object);

// Sets `text` to the UTF-8 bytes of a str (cached by Python) or to those of a bytes; valid while the object lives.
Status text_view(nanobind::handle object, size_t port, std::string_view& text);

nanobind::object hash_text(nanobind::object text, int32_t min_order, int32_t max_order, uint32_t buckets, uint64_t seed,
                           size_t capacity, std::optional<nanobind::bytes> table);

// (ids int32, offsets int64 [texts + 1])
nanobind::tuple hash_texts(nanobind::list texts, int32_t min_order, int32_t max_order, uint32_t buckets, uint64_t seed,
                           size_t capacity);

// (ids int64 [capacity], how many are in use)
nanobind::tuple tokenize_text(nanobind::object text, nanobind::bytes table, size_t capacity, size_t max_bytes);

// The bytes that the ids stand for.
nanobind::bytes detokenize_ids(nanobind::list ids, nanobind::bytes table);

}  // namespace alcove::binding
