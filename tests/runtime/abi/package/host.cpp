// A host in C++17, by alcove.hpp alone: prints the best answer of a text model, and what errors say.
#include <cstdio>
#include <utility>

#include "alcove.hpp"

int main(int count, char** arguments) {
  if (count != 3) return 2;
  alcove::Model opened = alcove::Model::open_file(arguments[1]);
  const alcove::Model model = std::move(opened);
  alcove::Session session = model.session(2);
  session.set_text(0, arguments[2]);
  session.run();
  const alcove::Output best = session.output(1);
  for (size_t i = 0; i < best.count(); ++i) {
    const std::string_view label = model.label(1, best.values<std::int64_t>()[i]);
    std::printf("label %.*s\n", static_cast<int>(label.size()), label.data());
  }
  const alcove::Port port = model.output(0);
  std::printf("port %.*s %zu %u\n", static_cast<int>(port.name.size()), port.name.data(), port.dims.size(), port.label_count);
  try {
    alcove::Model::open_bytes("no program", 10);
  } catch (const alcove::Error& error) {
    std::printf("error %d %s\n", error.status(), error.code().c_str());
  }
  try {
    session.run();
  } catch (const alcove::Error& error) {
    std::printf("error %d %s\n", error.status(), error.code().c_str());
  }
  session.set_text(0, arguments[2]);
  const std::vector<std::int64_t> times = session.run_profiled();
  for (size_t i = 0; i < model.op_count(); ++i) {
    const alcove::Op op = model.op(i);
    std::printf("op %.*s %.*s\n", static_cast<int>(op.name.size()), op.name.data(), static_cast<int>(op.source.size()), op.source.data());
  }
  std::int64_t least = 0;
  for (const std::int64_t time : times) least = time < least ? time : least;
  std::printf("times %zu %d\n", times.size() - model.op_count(), least == 0);
  std::printf("version %s\n", alcove_version());
  return 0;
}
