#include "invariant.hpp"

namespace boost {

// Assertions of the core, in every kind of build.
void assertion_failed(char const* what, char const*, char const*, long) {
    explorer::violated(explorer::invariant::assertion, what);
}

void assertion_failed_msg(char const* what, char const*, char const*, char const*, long) {
    explorer::violated(explorer::invariant::assertion, what);
}

}  // namespace boost
