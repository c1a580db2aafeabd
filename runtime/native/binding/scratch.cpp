#include "binding/scratch.h"

#include <functional>
#include <map>

#include "kernels/operators/attention/attention.h"
#include "kernels/operators/cached_attention/cached_attention.h"
#include "kernels/operators/attention_i8/attention_i8.h"
#include "kernels/operators/conv2d/conv2d.h"
#include "kernels/operators/conv2d_i8/conv2d_i8.h"
#include "kernels/operators/conv_transpose2d/conv_transpose2d.h"
#include "kernels/operators/linear_qd8_qc8w/linear_qd8_qc8w.h"
#include "kernels/operators/matmul/matmul.h"
#include "kernels/operators/recurrent/recurrent.h"
#include "kernels/operators/separable_conv2d/separable_conv2d.h"
#include "kernels/microkernels/connected_components/connected_components.h"
#include "kernels/microkernels/ctc_beam/ctc_beam.h"
#include "kernels/microkernels/linear_qd8_qb4w/linear_qd8_qb4w.h"
#include "kernels/microkernels/non_maximum_suppression/non_maximum_suppression.h"
#include "kernels/microkernels/sort/sort.h"
#include "kernels/microkernels/tokenize/tokenize.h"
#include "kernels/operators/pointwise_conv2d/pointwise_conv2d.h"
#include "kernels/operators/squeeze_excite_conv2d/squeeze_excite_conv2d.h"
#include "kernels/microkernels/fft/fft.h"
#include "kernels/operators/winograd_conv2d/winograd_conv2d.h"

namespace nb = nanobind;

namespace alcove::binding {

namespace {

// Takes sizes by name, and notices one that is missing or left over.
class Sizes {
 public:
  Sizes(const std::string& op, const nb::kwargs& given) : op_(op), given_(given) {}

  size_t operator()(const char* name) {
    if (!given_.contains(name)) throw nb::type_error((op_ + " needs " + name).c_str());
    ++taken_;
    const auto size = nb::cast<int64_t>(given_[name]);
    if (size < 0 || size >= int64_t{1} << 31) throw nb::value_error((op_ + ": " + name + " is out of range").c_str());
    return static_cast<size_t>(size);
  }
  // As `operator()`, of a size by which something is divided.
  size_t positive(const char* name) {
    const size_t size = (*this)(name);
    if (size == 0) throw nb::value_error((op_ + ": " + name + " is 0").c_str());
    return size;
  }
  void check_all_taken() const {
    if (taken_ != given_.size()) throw nb::type_error((op_ + " takes other sizes").c_str());
  }

 private:
  const std::string& op_;
  const nb::kwargs& given_;
  size_t taken_ = 0;
};

size_t recurrent(kernels::Recurrence kind, Sizes& size) {
  const size_t steps = size("steps"), batch = size("batch"), hidden = size("hidden");
  return kernels::recurrent_scratch_floats<size_t>(kind, steps, batch, hidden, size("is_projected") != 0) *
         sizeof(float);
}

size_t conv2d(Sizes& size) {
  const kernels::Conv2dSizes sizes = {.in_c = size.positive("in_c"),
                                      .out_w = size("out_w"),
                                      .out_c = size("out_c"),
                                      .groups = size("groups"),
                                      .kernel_h = size.positive("kernel_h"),
                                      .kernel_w = size.positive("kernel_w"),
                                      .stride_w = size("stride_w"),
                                      .dilation_h = size("dilation_h"),
                                      .dilation_w = size("dilation_w")};
  return kernels::conv2d_scratch_bytes<size_t>(sizes, sizes.kernel_h * sizes.kernel_w * sizes.in_c);
}

size_t separable(Sizes& size) {
  const size_t channels = size("channels"), in_w = size("in_w"), out_w = size("out_w"), rows = size.positive("rows");
  const size_t kernel_h = size("kernel_h"), stride_h = size("stride_h");
  return kernels::separable_scratch_bytes<size_t>(size("has_expand") != 0, channels, in_w, out_w, rows, kernel_h,
                                                  stride_h);
}

using Formula = size_t(Sizes&);

const std::map<std::string_view, std::function<Formula>>& list_formulas() {
  using namespace kernels;
  static const std::map<std::string_view, std::function<Formula>> table = {
      {"attention",
       [](Sizes& size) {
         const size_t length = size("length"), span = size("span"), width = size("width");
         return attention_scratch_floats<size_t>(length, span, width, size("value_width")) * sizeof(float);
       }},
      {"cached_attention",
       [](Sizes& size) {
         const size_t span = size("span"), width = size("width");
         return cached_attention_scratch_floats<size_t>(span, width, size("value_width")) * sizeof(float);
       }},
      {"attention_i8",
       [](Sizes& size) {
         const size_t span = size("span"), width = size("width");
         return attention_i8_scratch_bytes<size_t>(span, width, size("value_width"));
       }},
      {"connected_components",
       [](Sizes& size) {
         const size_t height = size("height");
         return connected_components_scratch_bytes<size_t>(height, size("width"));
       }},
      {"conv2d", conv2d},
      {"conv2d_i8", [](Sizes& size) { return conv2d_i8_scratch_bytes(size("patch")); }},
      {"conv_transpose2d",
       [](Sizes& size) {
         const size_t taps = size.positive("taps"), in_c = size.positive("in_c");
         return conv_transpose2d_scratch_bytes(taps, in_c, size("out_c"));
       }},
      {"ctc_beam",
       [](Sizes& size) {
         const size_t frames = size("frames"), classes = size("classes");
         return ctc_scratch_bytes<size_t>(frames, classes, size("width"));
       }},
      {"fft",
       [](Sizes& size) {
         const size_t points = size.positive("points");
         return fft_scratch_floats<size_t>(points, size("first")) * sizeof(float);
       }},
      {"gru", [](Sizes& size) { return recurrent(Recurrence::gru, size); }},
      {"linear_qd8_qb4w",
       [](Sizes& size) {
         const size_t inputs = size("inputs");
         return linear_qd8_qb4w_scratch_bytes(inputs, size.positive("group"));
       }},
      {"linear_qd8_qc8w",
       [](Sizes& size) {
         const size_t inputs = size("inputs");
         return linear_qd8_qc8w_scratch_bytes(inputs, size("rows"));
       }},
      {"lstm", [](Sizes& size) { return recurrent(Recurrence::lstm, size); }},
      {"matmul",
       [](Sizes& size) {
         const size_t n = size("n");
         return matmul_scratch_floats<size_t>(n, size("k")) * sizeof(float);
       }},
      {"non_maximum_suppression",
       [](Sizes& size) {
         const size_t count = size("count");
         return non_maximum_suppression_scratch_bytes<size_t>(count, size("most"));
       }},
      {"pointwise_conv2d",
       [](Sizes& size) {
         const size_t pixels = size("pixels");
         return pointwise_conv2d_scratch_floats<size_t>(pixels, size.positive("channels")) * sizeof(float);
       }},
      {"rnn", [](Sizes& size) { return recurrent(Recurrence::rnn, size); }},
      {"separable_conv2d", separable},
      {"sort",
       [](Sizes& size) {
         const size_t count = size("count");
         return count * sort_bytes_per_element(size("element_bytes"));
       }},
      {"squeeze_excite_conv2d",
       [](Sizes& size) {
         const size_t channels = size.positive("channels");
         const size_t gates = squeeze_excite_gate_floats<size_t>(channels, size("squeezed"));
         return (gates + squeeze_excite_block_floats(channels)) * sizeof(float);
       }},
      {"tokenize", [](Sizes& size) { return tokenize_scratch_bytes<size_t>(size.positive("max_bytes")); }},
      {"winograd_conv2d",
       [](Sizes& size) {
         const size_t in_c = size.positive("in_c");
         return winograd_scratch_bytes<size_t>(in_c, size("out_c"));
       }},
  };
  return table;
}

}  // namespace

uint64_t scratch_bytes(const std::string& op, const nb::kwargs& sizes) {
  const auto found = list_formulas().find(op);
  if (found == list_formulas().end()) throw nb::value_error((op + " has no scratch").c_str());
  Sizes named(op, sizes);
  const size_t bytes = found->second(named);
  named.check_all_taken();
  return bytes;
}

}  // namespace alcove::binding
