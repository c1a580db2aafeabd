#include "command/npy.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "alcove.hpp"

namespace alcove::command {

namespace {

struct Known {
  const char* name;
  alcove_dtype dtype;
};
constexpr Known kKnown[] = {{"<f4", ALCOVE_F32}, {"|i1", ALCOVE_I8}, {"<i4", ALCOVE_I32},
                            {"<i8", ALCOVE_I64}, {"|u1", ALCOVE_U8}, {"|b1", ALCOVE_BOOL}};

struct CloseFile {
  void operator()(std::FILE* file) const noexcept {
    if (file != stdin) std::fclose(file);
  }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

[[noreturn]] void fail(const std::string& path, const std::string& why) { throw std::runtime_error(path + ": " + why); }

// The text after 'key': in the header, a Python dictionary.
std::string find_value(const std::string& path, const std::string& header, const std::string& key) {
  const size_t at = header.find("'" + key + "':");
  if (at == std::string::npos) fail(path, "its header has no " + key);
  return header.substr(header.find_first_not_of(' ', at + key.size() + 3));
}

std::vector<std::uint64_t> parse_dims(const std::string& path, const std::string& shape) {
  std::vector<std::uint64_t> dims;
  if (shape.empty() || shape[0] != '(') fail(path, "its shape is none");
  const char* at = shape.c_str() + 1;
  while (*at != ')') {
    char* end = nullptr;
    errno = 0;
    const unsigned long long dim = std::strtoull(at, &end, 10);
    if (end == at || errno != 0 || dims.size() == ALCOVE_MAX_RANK) fail(path, "its shape is none that a program takes");
    dims.push_back(dim);
    at = end + std::strspn(end, ", ");
  }
  return dims;
}

}  // namespace

std::vector<std::uint8_t> read_file(const std::string& path) {
  const File file(path == "-" ? stdin : std::fopen(path.c_str(), "rb"));
  if (file == nullptr) fail(path, std::strerror(errno));
  std::vector<std::uint8_t> bytes;
  std::uint8_t buffer[16384];
  for (size_t count; (count = std::fread(buffer, 1, sizeof(buffer), file.get())) > 0;) {
    bytes.insert(bytes.end(), buffer, buffer + count);
  }
  if (std::ferror(file.get()) != 0) fail(path, "it cannot be read");
  return bytes;
}

Array read_npy(const std::string& path) {
  const std::vector<std::uint8_t> bytes = read_file(path);
  if (bytes.size() < 12 || std::memcmp(bytes.data(), "\x93NUMPY", 6) != 0) fail(path, "it is no .npy file");
  const bool is_short = bytes[6] == 1;
  if (!is_short && bytes[6] != 2) fail(path, "its .npy version is neither 1 nor 2");
  const size_t start = is_short ? 10 : 12;
  size_t header_bytes = size_t{bytes[8]} | size_t{bytes[9]} << 8;
  if (!is_short) header_bytes |= size_t{bytes[10]} << 16 | size_t{bytes[11]} << 24;
  if (header_bytes > bytes.size() - start) fail(path, "it ends within its header");
  const std::string header(bytes.begin() + static_cast<std::ptrdiff_t>(start),
                           bytes.begin() + static_cast<std::ptrdiff_t>(start + header_bytes));
  Array array;
  const std::string descr = find_value(path, header, "descr");
  const Known* found = nullptr;
  for (const Known& known : kKnown) {
    if (descr.compare(1, 3, known.name) == 0 && descr.size() > 4 && descr[4] == '\'') found = &known;
  }
  if (found == nullptr) fail(path, "its type is none that a program takes: " + descr.substr(0, 8));
  array.dtype = found->dtype;
  if (find_value(path, header, "fortran_order").compare(0, 5, "False") != 0) fail(path, "it is not in row-major order");
  array.dims = parse_dims(path, find_value(path, header, "shape"));
  std::uint64_t size = dtype_bytes(array.dtype);
  for (const std::uint64_t dim : array.dims) {
    if (__builtin_mul_overflow(size, dim, &size)) fail(path, "its shape is too large");
  }
  if (size != bytes.size() - start - header_bytes) fail(path, "its data are not of its shape");
  array.data.assign(bytes.begin() + static_cast<std::ptrdiff_t>(start + header_bytes), bytes.end());
  return array;
}

void write_npy(const std::string& path, alcove_dtype dtype, const std::vector<std::uint64_t>& dims, const void* data) {
  const char* name = "";
  for (const Known& known : kKnown) {
    if (known.dtype == dtype) name = known.name;
  }
  std::string header = std::string("{'descr': '") + name + "', 'fortran_order': False, 'shape': (";
  std::uint64_t size = dtype_bytes(dtype);
  for (const std::uint64_t dim : dims) {
    header += std::to_string(dim) + ",";
    size *= dim;
  }
  header += "), }";
  header.append(64 - (10 + header.size() + 1) % 64, ' ');
  header += '\n';
  const std::uint8_t front[10] = {0x93,
                                  'N',
                                  'U',
                                  'M',
                                  'P',
                                  'Y',
                                  1,
                                  0,
                                  static_cast<std::uint8_t>(header.size()),
                                  static_cast<std::uint8_t>(header.size() >> 8)};
  File file(std::fopen(path.c_str(), "wb"));
  if (file == nullptr) fail(path, std::strerror(errno));
  const bool is_written = std::fwrite(front, 1, sizeof(front), file.get()) == sizeof(front) &&
                          std::fwrite(header.data(), 1, header.size(), file.get()) == header.size() &&
                          std::fwrite(data, 1, size, file.get()) == size;
  if (std::fclose(file.release()) != 0 || !is_written) fail(path, "it cannot be written");
}

}  // namespace alcove::command
