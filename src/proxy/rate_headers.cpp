#include "rate_headers.hpp"

#include <weir/key_hash.hpp>

#include <boost/container/static_vector.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstring>
#include <utility>

namespace proxy {
namespace {

using std::chrono::seconds;

// Includes the limit of the seats of the upstream's servers.
constexpr std::size_t most_limits = config::route::most_limits + 1;

void append(std::string& out, std::int64_t n) {
    std::array<char, 20> digits;
    out.append(digits.data(), std::to_chars(digits.begin(), digits.end(), n).ptr);
}

// Hashes a key with a secret of this process. Without the secret a client could guess keys, since there are few
// addresses.
std::uint64_t partition_of(std::uint64_t key) {
    static weir::hash_seed const secret = weir::hash_seed::random();
    std::array<char, sizeof key> bytes;
    std::memcpy(bytes.data(), &key, sizeof key);
    return weir::key_hash()(secret, std::string_view(bytes.data(), bytes.size()));
}

// Appends the partition of a key: `;pk=:`, 8 bytes in base64, and `:`.
void append_partition(std::string& out, std::uint64_t key) {
    auto const partition = partition_of(key);
    constexpr std::string_view digits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::array<char, 11> text;
    for (std::size_t i = 0; i != text.size(); ++i) {
        auto const shift = 58 - 6 * static_cast<int>(i);
        text[i] = digits[(shift >= 0 ? partition >> shift : partition << -shift) & 63];
    }
    out.append(";pk=:").append(text.data(), text.size()).append("=:");
}

// The part of a rule that rejected the request.
std::size_t rejecting_part(policy const& of_limit, entry const& e) {
    if (e.retry_after == seconds::zero())
        return of_limit.smallest();
    return of_limit.part_after(
        e.rejected.retry_after ? std::optional(e.retry_after) : std::nullopt);
}

}  // namespace

// The rest of a limit: remaining permits and the time of the reset.
struct rate_header_writer::rest {
    std::size_t limit;
    std::string_view name;
    weir::amount max;
    weir::amount remaining;
    std::optional<std::int64_t> reset;  // in seconds
};

rate_header_writer::rate_header_writer(std::span<std::shared_ptr<limit> const> limits,
                                       config::limit_headers which)
    : which_(which) {
    for (auto const& l : limits)
        limits_.push_back({l, l->overrides_quotas()});
}

policy rate_header_writer::policy_for(std::size_t i, entry const& e) const {
    auto const& [of, overrides] = limits_[i];
    auto found = of->quotas();
    if (auto const by = e.at[i].by)
        found.quotas.assign(overrides[*by].begin(), overrides[*by].end());
    return found;
}

std::optional<rate_header_writer::rest> rate_header_writer::rest_of(std::size_t i,
                                                                    entry const& e) const {
    if (e.at[i].is_unlimited)
        return std::nullopt;
    auto const& l = *limits_[i].of;
    auto const of_limit = policy_for(i, e);
    if (of_limit.quotas.empty())
        return std::nullopt;
    auto const make = [&](std::size_t part, weir::amount remaining, std::optional<seconds> reset) {
        auto const& q = of_limit.quotas[part];
        bool const has_time = reset && q.has_window();
        return rest{i, of_limit.names[part], q.max, remaining,
                    has_time ? std::optional(reset->count()) : std::nullopt};
    };
    bool const is_here = e.rejected_number() == i;
    if (is_here && e.retry_after == seconds::zero())
        return std::nullopt;
    if (is_here)
        return make(rejecting_part(of_limit, e), 0, e.retry_after);
    if (l.is_of_store() || i >= e.permits.size() || !e.permits[i])
        return std::nullopt;
    std::optional<seconds> reset;
    if (auto const wait = e.permits[i].reset_after())
        reset = std::chrono::ceil<seconds>(*wait);
    return make(of_limit.part_after(reset), std::min(e.permits[i].remaining(), of_limit.max()),
                reset);
}

std::string_view rate_header_writer::violated(entry const& e) const {
    auto const by = e.rejected_number();
    if (!by)
        return {};
    auto const of_limit = policy_for(*by, e);
    return of_limit.names[of_limit.quotas.empty() ? 0 : rejecting_part(of_limit, e)];
}

void rate_header_writer::write_policies(std::string& out, entry const& e) const {
    bool first = true;
    auto const begin = [&] {
        out.append(std::exchange(first, false) ? "RateLimit-Policy: " : ", ");
    };
    for (std::size_t i = 0; i != limits_.size(); ++i) {
        if (e.at[i].is_unlimited)
            continue;
        auto const& l = *limits_[i].of;
        auto of_limit = policy_for(i, e);
        if (auto const seats = l.seats_now(e.at[i]))
            of_limit.quotas = {{.max = *seats, .at_a_time = true}};
        for (std::size_t n = 0; n != of_limit.quotas.size(); ++n) {
            begin();
            append_item(out, of_limit.names[n], of_limit.quotas[n]);
            if (l.is_keyed())
                append_partition(out, e.at[i].key);
        }
    }
    if (!first)
        out.append("\r\n");
}

bool rate_header_writer::write(std::string& out, entry const& e,
                               std::optional<weir::amount> theirs) const {
    out.clear();
    if (which_ == config::limit_headers::none)
        return false;
    boost::container::static_vector<rest, most_limits> known;
    for (std::size_t i = 0; i != limits_.size(); ++i)
        if (auto const found = rest_of(i, e))
            known.push_back(*found);

    if (which_ != config::limit_headers::legacy) {
        write_policies(out, e);
        std::string_view before = "RateLimit: ";
        for (auto const& r : known) {
            out.append(before).append(r.name).append(";r=");
            append(out, r.remaining);
            if (r.reset) {
                out.append(";t=");
                append(out, *r.reset);
            }
            if (limits_[r.limit].of->is_keyed())
                append_partition(out, e.at[r.limit].key);
            before = ", ";
        }
        if (!known.empty())
            out.append("\r\n");
    }
    if (which_ == config::limit_headers::ietf)
        return false;
    auto const less = [](rest const& a, rest const& b) {
        return a.reset && (!b.reset || a.remaining < b.remaining);
    };
    auto const least = std::ranges::min_element(known, less);
    if (least == known.end() || !least->reset || (theirs && *theirs <= least->remaining))
        return false;
    out.append("X-RateLimit-Limit: ");
    append(out, least->max);
    out.append("\r\nX-RateLimit-Remaining: ");
    append(out, least->remaining);
    out.append("\r\nX-RateLimit-Reset: ");
    append(out, *least->reset);
    out.append("\r\n");
    return true;
}

}  // namespace proxy
