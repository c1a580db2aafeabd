#include "core/bytes.h"

#include <cerrno>
#include <cinttypes>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/limits.h"
#include "core/memory.h"

namespace alcove {

namespace {

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int number() const { return number_; }

 private:
  int number_;
};

Status report_unreadable(const char* path, int error) {
  Status status = failure(Code::file_unreadable, Section::file, "%.150s: %.60s", path, std::strerror(error));
  status.system_error = error;
  return status;
}

bool is_installed(const struct stat& file) {
  const bool is_ours = file.st_uid == geteuid() || file.st_uid == 0;
  return is_ours && (file.st_mode & (S_IWUSR | S_IWGRP | S_IWOTH)) == 0;
}

Status read_all(int descriptor, const char* path, std::vector<uint8_t>& data) {
  size_t done = 0;
  while (done < data.size()) {
    const ssize_t count = read(descriptor, data.data() + done, data.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return report_unreadable(path, errno);
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  data.resize(done);  // a file that shrank meanwhile is judged as what was read
  return {};
}

}  // namespace

Bytes Bytes::copy_of(const uint8_t* data, size_t size) {
  Bytes bytes;
  bytes.owned_.reserve(size);
  advise_large_pages(bytes.owned_.data(), size);
  bytes.owned_.assign(data, data + size);
  return bytes;
}

Bytes Bytes::lent(const uint8_t* data, size_t size, std::shared_ptr<const void> owner) {
  Bytes bytes;
  bytes.foreign_ = data;
  bytes.foreign_size_ = size;
  bytes.owner_ = std::move(owner);
  return bytes;
}

Result<Bytes> Bytes::of_file(const char* path) {
  const Descriptor file(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number() < 0) return report_unreadable(path, errno);
  struct stat facts{};
  if (fstat(file.number(), &facts) != 0) return report_unreadable(path, errno);
  if (!S_ISREG(facts.st_mode)) {
    return failure(Code::file_not_regular, Section::file, "%.150s is no regular file", path);
  }
  const auto size = static_cast<uint64_t>(facts.st_size);
  if (size > kMaxFileBytes) {
    return failure(Code::file_too_large, Section::file, "the file has %" PRIu64 " bytes, the cap is %" PRIu64, size,
                   kMaxFileBytes);
  }
  Bytes bytes;
  if (size > 0 && is_installed(facts)) {
    void* mapped = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number(), 0);
    if (mapped == MAP_FAILED) return report_unreadable(path, errno);
    bytes.foreign_ = static_cast<const uint8_t*>(mapped);
    bytes.foreign_size_ = size;
    return bytes;
  }
  bytes.owned_.reserve(size);
  advise_large_pages(bytes.owned_.data(), size);
  bytes.owned_.resize(size);
  ALCOVE_TRY(read_all(file.number(), path, bytes.owned_));
  return bytes;
}

Bytes::Bytes(Bytes&& other) noexcept
    : owned_(std::move(other.owned_)),
      foreign_(std::exchange(other.foreign_, nullptr)),
      foreign_size_(std::exchange(other.foreign_size_, 0)),
      owner_(std::move(other.owner_)) {}

Bytes& Bytes::operator=(Bytes&& other) noexcept {
  std::swap(owned_, other.owned_);
  std::swap(foreign_, other.foreign_);
  std::swap(foreign_size_, other.foreign_size_);
  std::swap(owner_, other.owner_);
  return *this;
}

Bytes::~Bytes() {
  if (is_mapped()) munmap(const_cast<uint8_t*>(foreign_), foreign_size_);
}

}  // namespace alcove
