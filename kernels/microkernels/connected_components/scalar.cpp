// Runs of a row at a time, in a forest whose roots are the runs that come first.
#include <bit>
#include <cstring>

#include "kernels/microkernels/connected_components/connected_components.h"

namespace alcove::kernels {

namespace {

constexpr uint64_t kOnes = 0x0101010101010101u, kTops = 0x8080808080808080u;
constexpr bool kIsLittle = std::endian::native == std::endian::little;

struct Run {
  uint32_t first, end;
};

// The first of row[at, width) that is a pixel, or that is none; eight at a time.
template <bool kPixel>
size_t find(const uint8_t* row, size_t at, size_t width) noexcept {
  for (; kIsLittle && at + 8 <= width; at += 8) {
    uint64_t eight;
    std::memcpy(&eight, row + at, sizeof eight);
    if constexpr (kPixel) {
      if (eight != 0) return at + static_cast<size_t>(std::countr_zero(eight)) / 8;
    } else {
      // The lowest mark is at the first byte of 0; those above may be wrong.
      const uint64_t marks = (eight - kOnes) & ~eight & kTops;
      if (marks != 0) return at + static_cast<size_t>(std::countr_zero(marks)) / 8;
    }
  }
  while (at < width && (row[at] != 0) != kPixel) ++at;
  return at;
}

// Calls visit(run) for each run of a row, left to right.
template <typename Visit>
void visit_runs(const uint8_t* row, size_t width, const Visit& visit) noexcept {
  for (size_t at = find<true>(row, 0, width); at < width;) {
    const size_t end = find<false>(row, at, width);
    visit(Run{static_cast<uint32_t>(at), static_cast<uint32_t>(end)});
    at = find<true>(row, end, width);
  }
}

struct Forest {
  uint32_t *parents, *areas;

  [[nodiscard]] uint32_t find_root(uint32_t run) const noexcept {
    while (parents[run] != run) {
      parents[run] = parents[parents[run]];
      run = parents[run];
    }
    return run;
  }
  void unite(uint32_t run, uint32_t other) const noexcept {
    const uint32_t a = find_root(run), b = find_root(other);
    if (a == b) return;
    const uint32_t first = a < b ? a : b, second = a < b ? b : a;
    parents[second] = first;
    areas[first] += areas[second];
  }
};

}  // namespace

void connected_components_scalar(const ConnectedComponents& a) noexcept {
  const size_t most = connected_components_runs<size_t>(a.height, a.width);
  const Forest forest{reinterpret_cast<uint32_t*>(a.scratch), reinterpret_cast<uint32_t*>(a.scratch) + most};
  Run* above = reinterpret_cast<Run*>(forest.areas + most);
  Run* here = above + connected_components_runs<size_t>(1, a.width);
  const uint32_t reach = a.by_corners ? 1 : 0;
  uint32_t runs = 0, above_count = 0;
  for (size_t y = 0; y < a.height; ++y) {
    const uint32_t above_first = runs - above_count;
    uint32_t count = 0, candidate = 0;
    visit_runs(a.mask + y * a.width, a.width, [&](Run run) noexcept {
      here[count++] = run;
      forest.parents[runs] = runs;
      forest.areas[runs] = run.end - run.first;
      while (candidate < above_count && above[candidate].end + reach <= run.first) ++candidate;
      // The last that touches this run may touch the next one, too.
      for (uint32_t i = candidate; i < above_count && above[i].first < run.end + reach; ++i) {
        forest.unite(runs, above_first + i);
      }
      ++runs;
    });
    Run* const other = above;
    above = here;
    here = other;
    above_count = count;
  }
  // A parent comes before its children: by the time of a child it holds its own label and area.
  uint32_t run = 0, labels = 0;
  for (size_t y = 0; y < a.height; ++y) {
    int32_t* const label_row = a.labels + y * a.width;
    int32_t* const area_row = a.areas + y * a.width;
    std::memset(label_row, 0, a.width * sizeof(int32_t));
    std::memset(area_row, 0, a.width * sizeof(int32_t));
    visit_runs(a.mask + y * a.width, a.width, [&](Run at) noexcept {
      const uint32_t parent = forest.parents[run];
      const uint32_t label = parent == run ? ++labels : forest.parents[parent];
      const uint32_t area = forest.areas[parent];
      forest.parents[run] = label;
      forest.areas[run] = area;
      for (uint32_t x = at.first; x < at.end; ++x) {
        label_row[x] = static_cast<int32_t>(label);
        area_row[x] = static_cast<int32_t>(area);
      }
      ++run;
    });
  }
}

}  // namespace alcove::kernels
