#include "certificates.hpp"

#include "tool/arguments.hpp"
#include "tool/text.hpp"

#include <fmt/format.h>

#include <stdexcept>

namespace proxy {

std::shared_ptr<tls::context const> certificates_of_listeners::of(
    std::string const& listener) const {
    auto const found = all_.find(listener);
    return found == all_.end() ? nullptr : found->second;
}

std::vector<std::string> certificates_of_listeners::warnings(
    std::chrono::system_clock::time_point now) const {
    std::vector<std::string> lines;
    for (auto const& [listener, context] : all_)
        for (auto const& one : context->certificates()) {
            auto const say = [&](std::string_view what, std::chrono::system_clock::time_point at) {
                lines.push_back(fmt::format("listen `{}`: certificate `{}` {} {}", listener,
                                            one.file, what, tool::to_text(at)));
            };
            if (now >= one.valid_until)
                say("expired at", one.valid_until);
            else if (now < one.valid_from)
                say("is not valid before", one.valid_from);
        }
    return lines;
}

certificates_of_listeners read_certificates(config::configuration const& c,
                                            certificates_of_listeners const* before) {
    certificates_of_listeners made;
    if (before)
        made.keys_ = before->keys_;
    for (auto const& l : c.listeners) {
        if (l.tls.empty())
            continue;
        auto const name = to_string(l.address);
        try {
            if (!made.keys_)
                made.keys_ = tls::make_ticket_keys();
            tls::settings s{
                .listener = name,
                .certificates = {},
                .refuses_unknown_names = l.unknown_name == config::unknown_name::refuse};
            if (auto const& clients = l.client_certificates)
                s.clients = {.authorities = clients->authorities, .required = clients->required};
            if (l.tcp)
                s.protocols = l.alpn;
            for (auto const& one : l.tls)
                s.certificates.push_back({one.certificate, one.key});
            made.all_.emplace(name, tls::make_context(s, made.keys_));
        } catch (std::runtime_error const& wrong) {
            throw tool::usage_error(fmt::format("listen `{}`: {}", name, wrong.what()));
        }
    }
    return made;
}

}  // namespace proxy
