// Reads and writes .npy files: arrays of NumPy's format 1 and 2 that a program can take, little-endian, in row-major order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "alcove.h"

namespace alcove::command {

struct Array {
  alcove_dtype dtype = ALCOVE_F32;
  std::vector<std::uint64_t> dims;
  std::vector<std::uint8_t> data;
};

// Throws std::runtime_error, naming the file.
Array read_npy(const std::string& path);
void write_npy(const std::string& path, alcove_dtype dtype, const std::vector<std::uint64_t>& dims, const void* data);

// Throws std::runtime_error, naming the file; "-" is the standard input.
std::vector<std::uint8_t> read_file(const std::string& path);

}  // namespace alcove::command
