#include "field_name.hpp"

#include "characters.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace http {
namespace {

struct known_name {
    std::string_view text;
    field_name name;
};

constexpr std::size_t size_of(known_name const& one) noexcept {
    return one.text.size();
}

// Ordered by length, because the length alone excludes nearly all names.
constexpr auto known_names = [] {
    using enum field_name;
    return std::to_array<known_name>({
        {"te", te},
        {"date", date},
        {"host", host},
        {"accept", accept},
        {"expect", expect},
        {"trailer", trailer},
        {"upgrade", upgrade},
        {"forwarded", forwarded},
        {"connection", connection},
        {"keep-alive", keep_alive},
        {"x-request-id", x_request_id},
        {"content-length", content_length},
        {"http2-settings", http2_settings},
        {"x-original-uri", x_original_uri},
        {"x-original-url", x_original_url},
        {"x-forwarded-for", x_forwarded_for},
        {"x-forwarded-uri", x_forwarded_uri},
        {"x-original-host", x_original_host},
        {"proxy-connection", proxy_connection},
        {"x-forwarded-host", x_forwarded_host},
        {"transfer-encoding", transfer_encoding},
        {"x-forwarded-proto", x_forwarded_proto},
        {"x-original-method", x_original_method},
        {"proxy-authenticate", proxy_authenticate},
        {"x-forwarded-method", x_forwarded_method},
        {"proxy-authorization", proxy_authorization},
    });
}();
static_assert(std::ranges::is_sorted(known_names, {}, size_of));

constexpr std::size_t longest_name = size_of(known_names.back());

// For each length, the index of the first name that is not shorter.
constexpr auto first_of_length = [] {
    std::array<std::uint8_t, longest_name + 2> first{};
    for (std::size_t n = 0; n != first.size(); ++n)
        first[n] = static_cast<std::uint8_t>(
            std::ranges::lower_bound(known_names, n, {}, size_of) - known_names.begin());
    return first;
}();

}  // namespace

field_name field_name_of(std::string_view text) noexcept {
    if (text.size() <= longest_name)
        for (auto i = first_of_length[text.size()]; i != first_of_length[text.size() + 1]; ++i)
            if (iequals(known_names[i].text, text))
                return known_names[i].name;
    return field_name::other;
}

}  // namespace http
