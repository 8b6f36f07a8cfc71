#pragma once

#include "net/channel.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// TLS 1.2 and 1.3 towards clients, by OpenSSL. The functions of this header also exist without OpenSSL: then
// `is_built_in` is false, and no context can be made.
namespace tls {

/// Whether this program has TLS.
[[nodiscard]] bool is_built_in() noexcept;

/// PEM files. Both may be the same file.
struct certificate_files {
    std::string certificate;  // followed by the certificates of its issuers
    std::string key;
};

/// Makes a certificate for this machine (`localhost`), signed with its own key and valid for 30 days. Creates both files;
/// they must not exist. Throws `std::runtime_error`.
void write_self_signed(certificate_files const& to);

/// The certificates of clients.
struct client_certificates {
    std::string authorities;  // a PEM file: the authorities that may issue them
    bool required = true;     // otherwise a client without a valid one has no subject
};

/// The settings of a listener.
struct settings {
    std::string listener;  // sessions of one listener cannot be resumed at another one
    std::vector<certificate_files> certificates;  // at least one
    bool refuses_unknown_names = true;  // otherwise such a client gets the first certificate
    std::optional<client_certificates> clients = {};  // empty: does not ask for them
    // The protocols of ALPN, best first. A client without a common one is rejected. Empty: the listener ignores ALPN.
    std::vector<std::string> protocols = {"http/1.1", "http/1.0"};
};

/// The keys that encrypt the sessions which clients resume. Contexts with the same keys resume each other's sessions.
class ticket_keys;
[[nodiscard]] std::shared_ptr<ticket_keys> make_ticket_keys();

/// A certificate, as the operator sees it.
struct certificate_info {
    std::string file;
    std::vector<std::string> names;
    std::chrono::system_clock::time_point valid_from;
    std::chrono::system_clock::time_point valid_until;
};

/// The certificates of a listener. A client gets the certificates of the name for which it asks, an exact name before a
/// wildcard. Without a name, it gets the first certificate and the others of its first name. Any thread may use it.
class context {
public:
    context(context const&) = delete;
    virtual ~context() = default;

    /// A channel for a new connection. It keeps the context. If `stops`, it stops before the costly part of a handshake, which
    /// a resumed session does not have.
    [[nodiscard]] virtual std::unique_ptr<net::channel> accept(int descriptor,
                                                               bool stops) const = 0;
    /// Whether a client that asked for `server_name` may send requests for `host`, which has no port: they are one name,
    /// or the certificate for `server_name` has both names. True if one of them is empty.
    [[nodiscard]] virtual bool serves(std::string_view server_name,
                                      std::string_view host) const = 0;
    /// In the order of the settings.
    [[nodiscard]] virtual std::vector<certificate_info> const& certificates() const noexcept = 0;

protected:
    context() = default;
};

/// Reads the files. Throws `std::runtime_error`, which names the file and the reason.
[[nodiscard]] std::shared_ptr<context const> make_context(settings const& s,
                                                          std::shared_ptr<ticket_keys> keys);

}  // namespace tls
