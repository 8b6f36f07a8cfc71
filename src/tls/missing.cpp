// Replaces the other files of this folder in a program without OpenSSL.
#include "context.hpp"

#include <stdexcept>

namespace tls {

class ticket_keys {};

bool is_built_in() noexcept {
    return false;
}

std::shared_ptr<ticket_keys> make_ticket_keys() {
    return nullptr;
}

std::shared_ptr<context const> make_context(settings const&, std::shared_ptr<ticket_keys>) {
    throw std::runtime_error("this weir-proxy was built without TLS");
}

}  // namespace tls
