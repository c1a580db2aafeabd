// alcove-run: runs a program on inputs, and prints or writes its outputs.
//
//   alcove-run MODEL.alc [INPUT ...] [--out FOLDER] [--json] [--repeat N] [--threads N] [--check]
//
// An INPUT, in the order of the model's: a .npy file, `text:TEXT`, `file:PATH` (a file's bytes as text; - is the standard input) or
// `raw:PATH` (row-major bytes of the port's greatest dimensions).  Without inputs it says what the model takes and gives.
// Exit code 0; 1: the program, an input or a file was refused, and why is on the standard error; 2: the command line was wrong.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "alcove.hpp"
#include "command/npy.h"

namespace {

using alcove::Model;
using alcove::Output;
using alcove::Port;
using alcove::Session;
using alcove::command::Array;

// Of an output, on the standard output; --out has all.
constexpr size_t kMostPrinted = 10;

struct Options {
  std::string model, out;
  std::vector<std::string> inputs;
  bool is_json = false, checks_weights = false;
  unsigned long repeat = 1, threads = 1;
};

[[noreturn]] void wrong(const std::string& why) {
  std::fprintf(stderr,
               "alcove-run: %s\nusage: alcove-run MODEL.alc [FILE.npy | text:TEXT | file:PATH | raw:PATH ...]\n"
               "                  [--out FOLDER] [--json] [--repeat N] [--threads N] [--check]\n",
               why.c_str());
  std::exit(2);
}

unsigned long number(const std::string& name, const char* text) {
  char* end = nullptr;
  const unsigned long value = text == nullptr ? 0 : std::strtoul(text, &end, 10);
  if (text == nullptr || *text == '\0' || *end != '\0' || value < 1 || value > 1000000000) {
    wrong(name + " takes a number from 1 to 1000000000");
  }
  return value;
}

Options parse(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    const char* const next = i + 1 < count ? arguments[i + 1] : nullptr;
    if (argument == "--json") {
      options.is_json = true;
    } else if (argument == "--check") {
      options.checks_weights = true;
    } else if (argument == "--repeat" || argument == "--threads") {
      (argument == "--repeat" ? options.repeat : options.threads) = number(argument, next);
      ++i;
    } else if (argument == "--out") {
      if (next == nullptr) wrong("--out takes a folder");
      options.out = next;
      ++i;
    } else if (argument.rfind("--", 0) == 0) {
      wrong("no option " + argument);
    } else if (options.model.empty()) {
      options.model = argument;
    } else {
      options.inputs.push_back(argument);
    }
  }
  if (options.model.empty()) wrong("no model");
  return options;
}

// What an input holds until the run is over.
struct Held {
  bool is_text = false;
  std::string text;
  Array array;
};

Held read_input(const std::string& argument, const Port& port) {
  Held held;
  const std::string prefix = argument.substr(0, argument.find(':') + 1);  // none: empty
  const std::string rest = argument.substr(prefix.size());
  if (prefix == "text:") {
    held.is_text = true;
    held.text = rest;
  } else if (prefix == "file:") {
    const std::vector<std::uint8_t> bytes = alcove::command::read_file(rest);
    held.is_text = true;
    held.text.assign(bytes.begin(), bytes.end());
  } else if (prefix == "raw:") {
    held.array = {port.dtype, port.dims, alcove::command::read_file(rest)};
    size_t size = alcove::dtype_bytes(port.dtype);
    for (const std::uint64_t dim : port.dims) size *= static_cast<size_t>(dim);
    if (held.array.data.size() != size) {
      throw std::runtime_error(rest + ": " + std::to_string(held.array.data.size()) + " bytes, the input takes " +
                               std::to_string(size));
    }
  } else {
    held.array = alcove::command::read_npy(argument);
  }
  return held;
}

void set_inputs(Session& session, const std::vector<Held>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].is_text) session.set_dims(i, inputs[i].array.dims);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Array& array = inputs[i].array;
    if (inputs[i].is_text) {
      session.set_text(i, inputs[i].text);
    } else {
      session.set_tensor(i, array.dtype, array.dims, array.data.data());
    }
  }
}

std::string quote(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    char escaped[8];
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      std::snprintf(escaped, sizeof(escaped), "\\u%04x", static_cast<unsigned>(c));
      result += escaped;
    } else {
      result += c;
    }
  }
  return result + '"';
}

const char* dtype_name(alcove_dtype dtype) {
  static const char* const names[] = {"?", "float32", "int8", "int32", "int64", "uint8", "bool", "text"};
  return names[static_cast<size_t>(dtype) < 8 ? dtype : 0];
}

std::string format_dims(const std::vector<std::uint64_t>& dims, bool is_json) {
  std::string result = "[";
  for (size_t d = 0; d < dims.size(); ++d) result += (d > 0 ? (is_json ? "," : ", ") : "") + std::to_string(dims[d]);
  return result + "]";
}

// Enough digits that the same number is read again; JSON has no NaN and no infinities.
std::string format_number(const Output& output, size_t i, bool is_json) {
  char text[32];
  switch (output.dtype) {
    case ALCOVE_F32: {
      const double value = static_cast<double>(output.values<float>()[i]);
      if (is_json && !std::isfinite(value)) return "null";
      std::snprintf(text, sizeof(text), "%.9g", value);
      return text;
    }
    case ALCOVE_I32: return std::to_string(output.values<std::int32_t>()[i]);
    case ALCOVE_I64: return std::to_string(output.values<std::int64_t>()[i]);
    case ALCOVE_I8: return std::to_string(output.values<std::int8_t>()[i]);
    default: return std::to_string(output.values<std::uint8_t>()[i]);
  }
}

std::int64_t integer(const Output& output, size_t i) {
  return output.dtype == ALCOVE_I64 ? output.values<std::int64_t>()[i] : output.values<std::int32_t>()[i];
}

void print_ports(const Model& model, const Options& options) {
  if (options.is_json)
    std::printf("{\"memory_ceiling_bytes\":%llu", static_cast<unsigned long long>(model.memory_ceiling_bytes()));
  for (const bool is_input : {true, false}) {
    const size_t count = is_input ? model.input_count() : model.output_count();
    if (options.is_json) std::printf(",\"%s\":[", is_input ? "inputs" : "outputs");
    for (size_t i = 0; i < count; ++i) {
      const Port port = is_input ? model.input(i) : model.output(i);
      const std::string dims = format_dims(port.dims, options.is_json),
                        least = format_dims(port.least_dims, options.is_json);
      if (options.is_json) {
        std::printf("%s{\"name\":%s,\"dtype\":\"%s\",\"dims\":%s,\"least_dims\":%s,\"labels\":%u}", i > 0 ? "," : "",
                    quote(port.name).c_str(), dtype_name(port.dtype), dims.c_str(), least.c_str(), port.label_count);
      } else {
        std::printf("%s %zu: %.*s %s %s%s%s\n", is_input ? "input" : "output", i, static_cast<int>(port.name.size()),
                    port.name.data(), dtype_name(port.dtype), dims.c_str(), dims == least ? "" : " at least ",
                    dims == least ? "" : least.c_str());
      }
    }
    if (options.is_json) std::printf("]");
  }
  std::printf(options.is_json ? "}\n" : "memory: at most %llu bytes\n",
              static_cast<unsigned long long>(model.memory_ceiling_bytes()));
}

void print_output(const Model& model, const Output& output, size_t index, const Options& options) {
  const Port port = model.output(index);
  const size_t count = output.count();
  const size_t shown = options.is_json ? count : std::min(count, kMostPrinted);
  const std::string dims = format_dims(output.dims, options.is_json);
  if (options.is_json) {
    std::printf("%s{\"name\":%s,\"dtype\":\"%s\",\"dims\":%s,\"values\":[", index > 0 ? "," : "",
                quote(port.name).c_str(), dtype_name(output.dtype), dims.c_str());
  } else {
    std::printf("%.*s %s %s:", static_cast<int>(port.name.size()), port.name.data(), dtype_name(output.dtype),
                dims.c_str());
  }
  for (size_t i = 0; i < shown; ++i) {
    std::printf("%s%s", options.is_json ? (i > 0 ? "," : "") : " ", format_number(output, i, options.is_json).c_str());
    if (port.label_count > 0 && !options.is_json) {
      const std::string_view label = model.label(index, integer(output, i));
      std::printf(" (%.*s)", static_cast<int>(label.size()), label.data());
    }
  }
  if (options.is_json) {
    std::printf("]");
    if (port.label_count > 0) {
      std::printf(",\"labels\":[");
      for (size_t i = 0; i < count; ++i)
        std::printf("%s%s", i > 0 ? "," : "", quote(model.label(index, integer(output, i))).c_str());
      std::printf("]");
    }
    std::printf("}");
  } else {
    std::printf("%s\n", shown < count ? " ..." : "");
  }
}

int run(const Options& options) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const Model model = Model::open_file(options.model);
  const double open_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  if (options.checks_weights) model.verify_weights();
  if (options.inputs.empty() && model.input_count() > 0) {
    print_ports(model, options);
    return 0;
  }
  if (options.inputs.size() != model.input_count()) {
    wrong("the model takes " + std::to_string(model.input_count()) + " inputs, not " +
          std::to_string(options.inputs.size()));
  }
  std::vector<Held> inputs;
  for (size_t i = 0; i < options.inputs.size(); ++i) inputs.push_back(read_input(options.inputs[i], model.input(i)));
  Session session = model.session(static_cast<std::uint32_t>(std::min(options.threads, 0xFFFFul)));
  std::vector<double> times;
  for (unsigned long i = 0; i < options.repeat; ++i) {
    if (i > 0) session.reset();  // each run is a first one
    set_inputs(session, inputs);
    const auto before = Clock::now();
    session.run();
    times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - before).count());
  }
  std::sort(times.begin(), times.end());
  const double p50 = times[times.size() / 2], p95 = times[times.size() * 95 / 100];
  if (options.is_json) std::printf("{\"outputs\":[");
  for (size_t i = 0; i < model.output_count(); ++i) {
    const Output output = session.output(i);
    print_output(model, output, i, options);
    if (!options.out.empty()) {
      alcove::command::write_npy(options.out + "/" + std::to_string(i) + ".npy", output.dtype, output.dims,
                                 output.data);
    }
  }
  if (options.is_json) {
    std::printf("],\"open_ms\":%.4f,\"runs\":%lu,\"p50_ms\":%.4f,\"p95_ms\":%.4f}\n", open_ms, options.repeat, p50,
                p95);
  } else {
    std::printf("opened in %.2f ms; %lu run%s, p50 %.3f ms, p95 %.3f ms\n", open_ms, options.repeat,
                options.repeat > 1 ? "s" : "", p50, p95);
  }
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  const Options options = parse(count, arguments);
  try {
    return run(options);
  } catch (const alcove::Error& error) {
    std::fprintf(stderr, "alcove-run: %s [%s]\n", error.what(), error.code().c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "alcove-run: %s\n", error.what());
  }
  return 1;
}
