namespace alcove { int abi_version(); }
extern "C" __attribute__((visibility("default"))) int alcove_abi_version() { return alcove::abi_version(); }
