// Keeps libstdc++'s demangler, which only embellishes the last words of a crash, out of libalcove.so: a quarter of its size.
// Nothing here throws anything but std::bad_alloc, which c_api.cpp catches; so std::terminate is never reached.
#include <cstdlib>
#include <exception>

#if defined(__GLIBCXX__)
namespace __cxxabiv1 {
extern std::terminate_handler __terminate_handler;
std::terminate_handler __terminate_handler = std::abort;
}  // namespace __cxxabiv1
#endif
