#pragma once

#include "certificate.hpp"
#include "context.hpp"
#include "names.hpp"
#include "openssl.hpp"
#include "tickets.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tls {

/// One `SSL_CTX` for all certificates of a listener: its options hold for each name, and a reload replaces it as a whole.
/// The certificates of a connection are set once its name is known.
class server_context final : public context, public std::enable_shared_from_this<server_context> {
public:
    server_context(settings const& s, std::shared_ptr<ticket_keys> keys);

    [[nodiscard]] std::unique_ptr<net::channel> accept(int descriptor, bool stops) const override;
    [[nodiscard]] bool serves(std::string_view server_name, std::string_view host) const override;
    [[nodiscard]] std::vector<certificate_info> const& certificates() const noexcept override {
        return infos_;
    }

private:
    [[nodiscard]] static server_context const& of(SSL* ssl);
    static int on_server_name(SSL* ssl, int* alert, void*);
    static int on_certificate(SSL* ssl, void*);
    static int on_protocols(SSL* ssl, unsigned char const** out, unsigned char* out_size,
                            unsigned char const* in, unsigned in_size, void*);
    static int on_ticket(SSL* ssl, unsigned char* name, unsigned char* iv, EVP_CIPHER_CTX* cipher,
                         EVP_MAC_CTX* mac, int is_new);

    void add(certificate_files const& files);
    void limit_sessions_to(std::string_view what);
    [[nodiscard]] names::list certificates_for(std::string_view server_name) const;
    [[nodiscard]] bool use(SSL* ssl, certificate const& one) const;

    context_ptr const context_;
    std::vector<certificate> all_;
    std::vector<certificate_info> infos_;
    names names_;
    names::list default_;  // with the first name of the first certificate
    bool const refuses_unknown_names_;
    std::vector<std::string> const protocols_;
    std::shared_ptr<ticket_keys> const keys_;
};

/// The server name for which a client asks; see `names::normal`. Empty without one.
[[nodiscard]] std::string server_name_of(SSL const* ssl);

}  // namespace tls
