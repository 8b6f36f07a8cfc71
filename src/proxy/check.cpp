#include "check.hpp"

#include "http/characters.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace proxy {
namespace {

constexpr http::fault no_method{400, "the check does not describe the method of a request"};
constexpr http::fault no_target{400, "the check does not describe the target of a request"};
constexpr http::fault twice{400, "the check describes a part of the request more than once"};

// The fields of a check that describe a request.
class description {
public:
    explicit description(http::request_head const& check) noexcept : check_(check) {}

    // The value of the only field of these names; empty without one.
    [[nodiscard]] std::string_view find(std::string_view name,
                                        std::string_view other = {}) noexcept {
        std::string_view found;
        std::size_t lines = 0;
        for (auto const& f : check_.fields) {
            if (!http::iequals(f.name, name) && !http::iequals(f.name, other))
                continue;
            found = f.value;
            ++lines;
        }
        is_twice_ = is_twice_ || lines > 1;
        return found;
    }
    [[nodiscard]] bool is_twice() const noexcept { return is_twice_; }

private:
    http::request_head const& check_;
    bool is_twice_ = false;
};

// Divides `https://host/path` into host and path. Other texts are targets without a host.
void divide(std::string_view url, std::string_view& host, std::string_view& target) noexcept {
    target = url;
    auto const end_of_scheme = url.find("://");
    auto const scheme = url.substr(0, end_of_scheme);
    if (end_of_scheme == url.npos ||
        (!http::iequals(scheme, "http") && !http::iequals(scheme, "https")))
        return;
    url.remove_prefix(end_of_scheme + 3);
    auto const path = std::min(url.find_first_of("/?"), url.size());
    host = url.substr(0, path);
    target = path == url.size() ? "/" : url.substr(path);
}

}  // namespace

http::fault describe(config::described_by what, http::request_head const& check,
                     http::request_head& out) {
    if (what == config::described_by::itself)
        return {};
    description fields(check);
    std::string_view method;
    std::string_view target;
    std::string_view host;
    if (what == config::described_by::x_forwarded) {
        method = fields.find("X-Forwarded-Method");
        target = fields.find("X-Forwarded-Uri");
        host = fields.find("X-Forwarded-Host");
    } else {
        method = fields.find("X-Original-Method");
        divide(fields.find("X-Original-URL", "X-Original-URI"), host, target);
        if (auto const named = fields.find("X-Original-Host"); !named.empty())
            host = named;
    }
    if (fields.is_twice())
        return twice;
    if (method.empty())
        return no_method;
    if (target.empty())
        return no_target;
    return http::readdress(out, method, target, host.empty() ? check.host : host);
}

}  // namespace proxy
