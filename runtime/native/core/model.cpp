#include "core/model.h"

#include <cinttypes>
#include <cstdlib>
#include <string>

#include "core/cancel.h"
#include "core/sizes.h"
#include "core/widen.h"

namespace alcove {

namespace {

Result<kernels::Isa> choose_isa() {
  kernels::Isa isa = kernels::best_isa();
  const char* forced = std::getenv("ALCOVE_ISA");
  if (forced == nullptr || *forced == '\0') return isa;
  if (!kernels::isa_from_name(forced, isa)) {
    return failure(Code::isa_unknown, Section::file, "ALCOVE_ISA is %.40s; known are %s", forced, kernels::kIsaNames);
  }
  if (!kernels::machine_has(isa)) {
    return failure(Code::isa_missing, Section::file, "ALCOVE_ISA is %s, which this machine lacks; its best is %s",
                   kernels::isa_name(isa), kernels::isa_name(kernels::best_isa()));
  }
  return isa;
}

Result<const kernels::KernelTable*> choose_kernels() {
  Result<kernels::Isa> isa = choose_isa();
  if (!isa.is_ok()) return isa.status();
  static const kernels::KernelTable table = with_polls(kernels::kernels_for(isa.value()));
  return &table;
}

Status check_bounds(const Program& program, const uint32_t* sizes) noexcept {
  for (size_t s = 0; s < program.symbols.size(); ++s) {
    const Symbol& symbol = program.symbols[s];
    if (sizes[s] < symbol.min || sizes[s] > symbol.max) {
      return failure(Code::input_shape, Section::file, "symbol %zu is %" PRIu32 ", allowed are %" PRIu32 " to %" PRIu32,
                     s, sizes[s], symbol.min, symbol.max);
    }
  }
  return {};
}

}  // namespace

Result<const kernels::KernelTable*> process_kernels() {
  static const Result<const kernels::KernelTable*> chosen = choose_kernels();
  return chosen;
}

Model::Model(Bytes bytes, Verified verified, const kernels::KernelTable& kernels)
    : bytes_(std::move(bytes)), verified_(std::move(verified)), kernels_(&kernels) {
  for (const Method& method : methods().all) {
    const Program& program = method.program;
    std::vector<int32_t> writers = producers(program);
    std::vector<bool> checks;
    checks.reserve(program.ops.size());
    for (const Op& op : program.ops) {
      const int32_t writer = op.code == OpCode::text_embedding_bag ? writers[op.inputs[0]] : -1;
      checks.push_back(writer < 0 || program.ops[static_cast<size_t>(writer)].code != OpCode::ngram_hash);
    }
    writers_.push_back(std::move(writers));
    checks_indices_.push_back(std::move(checks));
  }
}

Status Model::widen() {
  const uint64_t bytes = methods().widened_bytes;
  if (bytes == 0) return {};
  widened_ = allocate_zeros(bytes);
  if (widened_ == nullptr) {
    return failure(Code::out_of_memory, Section::file, "the system gave no %" PRIu64 " bytes for constants of 16 bits",
                   bytes);
  }
  for (const Method& method : methods().all) {
    for (const Tensor& tensor : method.program.tensors) {
      if (!tensor.is_half() || tensor.is_half_in_place())
        continue;  // one that several methods read is written as often
      alcove::widen(stored(tensor), tensor.stored == DType::f16, tensor.size_bytes / sizeof(float),
                    reinterpret_cast<float*>(widened_.get() + tensor.widened_at));
    }
  }
  return {};
}

size_t Model::find_method(std::string_view name) const noexcept {
  size_t found = 0;
  while (found < methods().all.size() && methods().all[found].name != name) ++found;
  return found;
}

Result<std::shared_ptr<const Model>> Model::open(Bytes bytes) {
  Result<const kernels::KernelTable*> kernels = process_kernels();
  if (!kernels.is_ok()) return kernels.status();
  Result<Verified> verified = verify(bytes.data(), bytes.size());
  if (!verified.is_ok()) return verified.status();
  std::shared_ptr<Model> model(new Model(std::move(bytes), std::move(verified.value()), *kernels.value()));
  ALCOVE_TRY(model->widen());
  return std::shared_ptr<const Model>(std::move(model));
}

size_t Model::first_refused(size_t method, const uint32_t* sizes, size_t count, Status& status) const {
  const Program& program = this->program(method);
  Program bound = copy_to_bind(program);
  std::vector<int64_t> values(program.expressions.size());
  for (size_t row = 0; row < count; ++row, sizes += program.symbols.size()) {
    status = check_bounds(program, sizes);
    if (status.is_ok()) status = bind(program, bucket_for(program, sizes), sizes, values.data(), bound);
    if (status.is_ok()) status = check_signatures(bound, writers(method), bound.run_cost);
    if (!status.is_ok()) return row;
  }
  return count;
}

}  // namespace alcove
