// Replaces the other files of this folder in a program without OpenSSL.
#include "client.hpp"
#include "context.hpp"
#include "failure.hpp"

#include <stdexcept>

namespace tls {

class ticket_keys {};

boost::system::error_category const& category() noexcept {
    return boost::system::generic_category();
}

bool is_built_in() noexcept {
    return false;
}

void write_self_signed(certificate_files const&) {
    throw std::runtime_error("this weir-proxy was built without TLS");
}

std::shared_ptr<ticket_keys> make_ticket_keys() {
    return nullptr;
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): as with TLS
std::shared_ptr<context const> make_context(settings const&, std::shared_ptr<ticket_keys>) {
    throw std::runtime_error("this weir-proxy was built without TLS");
}

std::vector<std::shared_ptr<client const>> make_clients(client_settings const&,
                                                        std::vector<std::string> const&) {
    throw std::runtime_error("this weir-proxy was built without TLS");
}

bool is_of_tls(net::error_code const&) noexcept {
    return false;
}

bool is_of_certificate(net::error_code const&) noexcept {
    return false;
}

}  // namespace tls
