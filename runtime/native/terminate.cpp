// Keeps out of libalcove.so what of libstdc++ only embellishes the last words of a crash: its demangler, a quarter of the library's
// size, and the texts of errors that cannot be.  Nothing here throws anything but std::bad_alloc, which c_api.cpp catches; so
// std::terminate is never reached, and a vector that were asked for more than there can be would be one more lack of memory.
#include <cstdlib>
#include <exception>
#include <new>

#if defined(__GLIBCXX__)
namespace __cxxabiv1 {
extern std::terminate_handler __terminate_handler;
std::terminate_handler __terminate_handler = std::abort;
}  // namespace __cxxabiv1

// As <bits/functexcept.h> declares them.
namespace std {
void __throw_bad_alloc() { throw bad_alloc(); }
void __throw_bad_array_new_length() { throw bad_alloc(); }
void __throw_length_error(const char*) { throw bad_alloc(); }
void __throw_logic_error(const char*) { throw bad_alloc(); }
void __throw_out_of_range_fmt(const char*, ...) { throw bad_alloc(); }
}  // namespace std
#endif
