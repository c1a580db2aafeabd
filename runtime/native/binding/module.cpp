#include <nanobind/nanobind.h>
namespace alcove { int abi_version(); }
NB_MODULE(_native, m) { m.def("abi_version", &alcove::abi_version); }
