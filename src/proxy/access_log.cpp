#include "access_log.hpp"

#include <weir/key_hash.hpp>

#include "tool/json.hpp"
#include "tool/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

namespace proxy {
namespace {

std::string escaped(std::string_view text) {
    std::string out;
    tool::append_escaped(out, text, [&out](char c) {
        fmt::format_to(std::back_inserter(out), "\\x{:02X}", static_cast<unsigned char>(c));
    });
    return out;
}

// In seconds, to the millisecond; not below 0.
std::string seconds(net::clock::duration t) {
    auto const ms = std::chrono::round<std::chrono::milliseconds>(t).count();
    std::string out = std::to_string(ms);
    if (out.size() < 4)
        out.insert(0, 4 - out.size(), '0');
    out.insert(out.size() - 3, 1, '.');
    return out;
}

// Writes 16 digits.
void write_hexadecimal(std::uint64_t n, char* out) noexcept {
    constexpr std::string_view digits = "0123456789abcdef";
    for (int i = 15; i >= 0; --i, n >>= 4)
        out[i] = digits[n & 15];
}

constexpr std::string_view request_id_field = "X-Request-Id";
constexpr std::size_t longest_id = 128;

}  // namespace

request_ids::request_ids() {
    auto const random = weir::hash_seed::random();
    write_hexadecimal(random.a, text_.data());
    next_ = random.b;
}

void request_ids::make(std::string& out) {
    write_hexadecimal(next_++, text_.data() + text_.size() / 2);
    out.assign(text_.begin(), text_.end());
}

void take_request_id(http::request_head& request, std::string& id, request_ids& fresh) {
    auto const is_good = [](std::string_view text) {
        return !text.empty() && text.size() <= longest_id &&
               std::ranges::all_of(text, [](char c) { return tool::is_plain(c) && c != ' '; });
    };
    id.clear();
    for (auto& f : request.fields) {
        if (f.id != http::field_name::x_request_id)
            continue;
        if (id.empty() && f.goes_on && is_good(f.value))
            id = f.value;
        else
            f.goes_on = false;
    }
    if (!id.empty())
        return;
    fresh.make(id);
    if (request.fields.size() < http::head::max_fields)
        request.fields.push_back({http::field_name::x_request_id, true, request_id_field, id});
}

std::string text_of(log_line const& l) {
    return fmt::format("{} {} \"{}\" {} {} {} {} {} \"{}\" {}\n", tool::to_text(l.ended), l.client,
                       escaped(l.request), l.status, l.bytes, seconds(l.took), seconds(l.waited),
                       l.upstream.empty() ? "-" : l.upstream,
                       l.limit.empty() ? "-" : escaped(l.limit), l.id.empty() ? "-" : l.id);
}

std::string json_of(log_line const& l) {
    tool::json out;
    out.reserve(512);
    auto const text = [&](std::string_view name, std::string_view value) {
        out.name(name);
        if (value.empty())
            out.null();
        else
            out.value(value);
    };
    out.begin();
    text("time", tool::to_text(l.ended));
    text("remote_addr", l.client);
    text("request", l.request);
    out.member("status", l.status).member("body_bytes_sent", l.bytes);
    out.name("request_time").raw(seconds(l.took));
    out.name("waited").raw(seconds(l.waited));
    text("upstream", l.upstream);
    text("limit", l.limit);
    text("request_id", l.id);
    if (l.throttled)
        out.name("throttled").raw(seconds(*l.throttled));
    if (auto const& how = l.encryption) {
        text("tls_version", how->version);
        text("tls_cipher", how->cipher);
        text("server_name", how->server_name);
        text("client_certificate", how->client_certificate);
    }
    return std::move(out.end()).text() + '\n';
}

}  // namespace proxy
