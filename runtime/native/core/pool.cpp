#include "core/pool.h"

#include <sched.h>
#include <unistd.h>

#include <ctime>

#include "core/float_mode.h"

namespace alcove {

namespace {

constexpr uint64_t kPartsMask = 0xFF, kJob = 0x100;
constexpr uint64_t kEnd = kPartsMask;  // as the parts of a job: helpers are to leave
static_assert(kMaxThreads < kEnd);

// The pause between two small ops of a run; more would take a core from the app.
constexpr int64_t kLookNanoseconds = 50'000;

int64_t now() noexcept {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

// Cores that this process may use.
uint32_t cores() noexcept {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return static_cast<uint32_t>(CPU_COUNT(&set));
#endif
  const long count = sysconf(_SC_NPROCESSORS_ONLN);
  return count > 0 ? static_cast<uint32_t>(count) : 1;
}

class Lock {
 public:
  explicit Lock(pthread_mutex_t& mutex) noexcept : mutex_(mutex) { pthread_mutex_lock(&mutex_); }
  ~Lock() { pthread_mutex_unlock(&mutex_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  pthread_mutex_t& mutex_;
};

inline void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Whether `is_over` has become true within kLookNanoseconds.
template <typename IsOver>
bool look(bool spins, IsOver is_over) noexcept {
  if (is_over()) return true;
  if (!spins) return false;
  const int64_t until = now() + kLookNanoseconds;
  do {
    for (int i = 0; i < 32; ++i) {
      if (is_over()) return true;
      pause();
    }
  } while (now() < until);
  return false;
}

}  // namespace

Pool::Pool(uint32_t threads, uint64_t part_work) noexcept
    : threads_(threads), part_work_(part_work > 0 ? part_work : 1), process_(getpid()), spins_(cores() >= threads) {}

Result<Pool::Handle> Pool::create(uint32_t threads, uint64_t part_work) {
  Handle pool(new Pool(threads, part_work));
  for (uint32_t i = 0; i + 1 < threads; ++i) {
    Helper& helper = pool->helpers_[i];
    helper.pool = pool.get();
    helper.index = i + 1;
    if (const int error = pthread_create(&helper.thread, nullptr, &Pool::help, &helper); error != 0) {
      Status status = failure(Code::thread_refused, Section::file, "the system gave %u of %u threads", i + 1, threads);
      status.system_error = error;
      return status;  // those that were made leave with the pool
    }
    pool->helper_count_ = i + 1;
  }
  return pool;
}

Pool::~Pool() {
  published_.store((published_.load(std::memory_order_relaxed) & ~kPartsMask) + kJob + kEnd);
  {
    const Lock lock(mutex_);
    pthread_cond_broadcast(&jobs_);
  }
  for (uint32_t i = 0; i < helper_count_; ++i) pthread_join(helpers_[i].thread, nullptr);
  pthread_cond_destroy(&jobs_);
  pthread_cond_destroy(&done_);
  pthread_mutex_destroy(&mutex_);
}

void Pool::End::operator()(Pool* pool) const noexcept {
  // Waiters that are not there would be waited for.
  if (pool->is_here()) delete pool;
}

bool Pool::is_here() const noexcept { return getpid() == process_; }

void Pool::run(size_t parts, Part* part, const void* job) noexcept {
  part_ = part;
  job_ = job;
  undone_.store(static_cast<uint32_t>(parts - 1), std::memory_order_relaxed);
  // Sequentially consistent, as all that follow: either a helper sees the job before it sleeps, or it is seen to sleep here.
  published_.store((published_.load(std::memory_order_relaxed) & ~kPartsMask) + kJob + parts);
  if (sleepers_.load() > 0) {
    const Lock lock(mutex_);  // whoever is about to sleep does so before it is woken
    pthread_cond_broadcast(&jobs_);
  }
  part(job, 0);
  const auto is_done = [this] { return undone_.load() == 0; };
  if (look(spins_, is_done)) return;
  const Lock lock(mutex_);
  caller_sleeps_.store(true);
  while (!is_done()) pthread_cond_wait(&done_, &mutex_);
  caller_sleeps_.store(false);
}

// The first job after `seen`.
uint64_t Pool::next_job(uint64_t seen) noexcept {
  uint64_t now = seen;
  const auto is_new = [&] { return (now = published_.load()) != seen; };
  if (look(spins_, is_new)) return now;
  const Lock lock(mutex_);
  sleepers_.fetch_add(1);
  while (!is_new()) pthread_cond_wait(&jobs_, &mutex_);
  sleepers_.fetch_sub(1);
  return now;
}

void* Pool::help(void* helper) noexcept {
  const FloatMode mode;
  const size_t index = static_cast<Helper*>(helper)->index;
  Pool& pool = *static_cast<Helper*>(helper)->pool;
  uint64_t seen = 0;
  for (;;) {
    seen = pool.next_job(seen);
    const uint64_t parts = seen & kPartsMask;
    if (parts == kEnd) return nullptr;
    if (index >= parts) continue;
    pool.part_(pool.job_, index);
    if (pool.undone_.fetch_sub(1) == 1 && pool.caller_sleeps_.load()) {
      const Lock lock(pool.mutex_);
      pthread_cond_signal(&pool.done_);
    }
  }
}

}  // namespace alcove
