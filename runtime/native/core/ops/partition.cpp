#include "core/ops/partition.h"

namespace alcove::ops {

namespace {

// Inputs [skip, skip + in) with `pad` before them.
struct Seen {
  size_t skip, in, pad;
};

// What outputs [first, first + count) look at, of `in` inputs with `pad` before them; `count` in whole tiles, because a kernel reads
// for all of a tile even where the image ends within it.
Seen find_seen(const Slide& slide, size_t in, size_t pad, size_t first, size_t count) noexcept {
  const size_t begin = first * slide.stride;
  const size_t length = (count - 1) * slide.stride + slide.reach;
  const size_t skip = begin > pad ? begin - pad : 0;
  if (skip >= in) return {0, 1, length};  // only the padding behind: as good as padding before one input
  const size_t above = begin > pad ? 0 : pad - begin;
  const size_t seen = length > above ? length - above : 1;
  return {skip, seen < in - skip ? seen : in - skip, above};
}

}  // namespace

void partition_images(const Call& c, const Partition& all, const Slide& rows, const Slide& columns, size_t tile,
                      uint64_t work, PartitionRun* run, const void* context) noexcept {
  const bool is_line = all.in_h == 1 && all.out_h == 1;
  const size_t extent = is_line ? all.out_w : all.out_h;
  const size_t tiles = (extent + tile - 1) / tile;
  const size_t in_pixel = c.input(0).dims[3], out_pixel = c.output(0).dims[3];
  const size_t in_step = is_line ? in_pixel : all.in_w * in_pixel,
               out_step = is_line ? out_pixel : all.out_w * out_pixel;
  const size_t in_image = all.in_h * all.in_w * in_pixel, out_image = all.out_h * all.out_w * out_pixel;
  const size_t units = all.batch * tiles;
  c.split(units, work, [&](size_t first, size_t end, size_t part) noexcept {
    while (first < end) {
      const size_t from = first % tiles, left = end - first;
      Partition partition = all;
      partition.input = first / tiles * in_image;
      partition.output = first / tiles * out_image;
      if (from == 0 && left >= tiles) {
        partition.batch = left / tiles;
        first += partition.batch * tiles;
      } else {
        const size_t to = left < tiles - from ? from + left : tiles;
        const size_t line = from * tile, count = (to * tile < extent ? to * tile : extent) - line;
        const size_t whole = (to - from) * tile;
        const Seen seen = is_line ? find_seen(columns, all.in_w, all.pad_left, line, whole)
                                  : find_seen(rows, all.in_h, all.pad_top, line, whole);
        partition.batch = 1;
        partition.input += seen.skip * in_step;
        partition.output += line * out_step;
        (is_line ? partition.in_w : partition.in_h) = seen.in;
        (is_line ? partition.out_w : partition.out_h) = count;
        (is_line ? partition.pad_left : partition.pad_top) = seen.pad;
        first += to - from;
      }
      run(context, partition, part);
    }
  });
}

}  // namespace alcove::ops
