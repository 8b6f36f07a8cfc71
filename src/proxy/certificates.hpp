#pragma once

#include "config/configuration.hpp"
#include "tls/context.hpp"

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace proxy {

/// The certificates of the listeners of a configuration, by the names of the listeners.
class certificates_of_listeners {
public:
    /// Null for a listener without TLS.
    [[nodiscard]] std::shared_ptr<tls::context const> of(std::string const& listener) const;

    [[nodiscard]] std::map<std::string, std::shared_ptr<tls::context const>> const& all()
        const noexcept {
        return all_;
    }

    /// A line for each certificate that clients reject because of its time.
    [[nodiscard]] std::vector<std::string> warnings(
        std::chrono::system_clock::time_point now) const;

private:
    friend certificates_of_listeners read_certificates(config::configuration const& c,
                                                       certificates_of_listeners const* before);

    std::shared_ptr<tls::ticket_keys> keys_;  // null without a listener with TLS
    std::map<std::string, std::shared_ptr<tls::context const>> all_;
};

/// Reads the files of the listeners with TLS. Clients can resume sessions of `before`, if it is not null. Throws
/// `tool::usage_error`, which names the listener, the file and the reason.
[[nodiscard]] certificates_of_listeners read_certificates(config::configuration const& c,
                                                          certificates_of_listeners const* before);

}  // namespace proxy
