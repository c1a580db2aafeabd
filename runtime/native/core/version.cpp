namespace alcove { int abi_version() { return 1; } }
