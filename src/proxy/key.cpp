#include "key.hpp"

#include <weir/client_key.hpp>
#include <weir/key_hash.hpp>

#include "client.hpp"
#include "http/characters.hpp"
#include "http/path.hpp"
#include "http/values.hpp"
#include "limiting/request.hpp"
#include "tool/network.hpp"

#include <boost/asio/ip/address.hpp>
#include <boost/container/small_vector.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <utility>

namespace proxy {
namespace {

struct seed_of_process {
    std::mutex mutex;
    weir::hash_seed seed = weir::hash_seed::random();

    static seed_of_process& it() {
        static seed_of_process one;
        return one;
    }
};

// The text to hash. Most keys need no allocation.
class key_text {
public:
    // Each part begins with its length, so that different lists of parts never give the same text.
    void add(std::string_view part) {
        begin();
        append(part);
        end();
    }
    void add(std::uint64_t key) { add({reinterpret_cast<char const*>(&key), sizeof key}); }
    // Adds the value of a request. Returns false, and adds an empty part, if the request has none.
    bool add(config::key_part const& part, request_info const& who) {
        using kind = config::key_part::kind;
        auto const& request = who.request;
        begin();
        switch (part.what) {
            case kind::header:
                append_field(request, part.name);
                break;
            case kind::cookie:
                append(http::cookie_of(request, part.name).value);
                break;
            case kind::query:
                append(http::parameter_of(request.target, part.name).value);
                break;
            case kind::claim:
                append(http::claim_of(request, part.name));
                break;
            case kind::segment:
                append(http::segment_of(http::normal_path(request.target), part.number));
                break;
            case kind::client_certificate:
                append(who.client_certificate);
                break;
            case kind::sni:
                append(who.server_name);
                break;
            case kind::client:
            case kind::shared:
            case kind::reject:
                break;
        }
        end();
        return text_.size() != begun_;
    }
    // Removes the last part.
    void remove() { text_.resize(begun_ - sizeof(std::uint64_t)); }

    // The value of the last part.
    [[nodiscard]] std::string_view last() const {
        return {text_.data() + begun_, text_.size() - begun_};
    }
    [[nodiscard]] std::string_view all() const { return {text_.data(), text_.size()}; }
    [[nodiscard]] std::uint64_t hash(weir::hash_seed const& seed) const {
        return weir::key_hash()(seed, all());
    }

private:
    // Appends the value as the upstream receives it: several lines form one list.
    void append_field(http::request_head const& request, std::string_view name) {
        for (auto const& f : request.fields) {
            if (!f.goes_on || !http::iequals(f.name, name))
                continue;
            if (text_.size() != begun_)
                append(",");
            append(f.value);
        }
    }
    void begin() {
        text_.resize(text_.size() + sizeof(std::uint64_t));
        begun_ = text_.size();
    }
    void append(std::string_view text) { text_.insert(text_.end(), text.begin(), text.end()); }
    void end() {
        auto const size = static_cast<std::uint64_t>(text_.size() - begun_);
        std::memcpy(text_.data() + begun_ - sizeof size, &size, sizeof size);
    }

    boost::container::small_vector<char, 256> text_;
    std::size_t begun_ = 0;  // the last part
};

// Whether a request has a value of the part or of its alternatives, other than the client.
bool has_value(config::key_part const& part, request_info const& who) {
    bool found = false;
    config::each_source(part, [&](config::key_part const& one) {
        found = found || key_text().add(one, who);
    });
    return found;
}

// How often a request has a value.
std::size_t count_of(config::key_part const& part, http::request_head const& request) {
    using kind = config::key_part::kind;
    switch (part.what) {
        case kind::header:
            return http::count_lines(request, part.name);
        case kind::cookie:
            return http::cookie_of(request, part.name).count;
        case kind::query:
            return http::parameter_of(request.target, part.name).count;
        case kind::claim:
            return http::count_lines(request, "authorization");
        case kind::client:
        case kind::segment:
        case kind::client_certificate:
        case kind::sni:
        case kind::shared:
        case kind::reject:
            break;
    }
    return 0;
}

}  // namespace

weir::hash_seed key_seed() {
    auto& its = seed_of_process::it();
    std::lock_guard const lock(its.mutex);
    return its.seed;
}
void set_key_seed(weir::hash_seed const& seed) {
    auto& its = seed_of_process::it();
    std::lock_guard const lock(its.mutex);
    its.seed = seed;
}

keys_of_requests::keys_of_requests(std::vector<config::key_part> parts, int v4_prefix,
                                   int v6_prefix, weir::hash_seed const& seed)
    : parts_(std::move(parts)),
      seed_(seed),
      is_client_(parts_.size() == 1 && parts_.front() == config::key_part()),
      has_client_(parts_.size() == 1 && config::has_client(parts_.front())),
      v4_prefix_(v4_prefix),
      v6_prefix_(v6_prefix) {}

keys_of_requests::keys_of_requests(config::limit const& c)
    : keys_of_requests(c.key, c.v4_prefix, c.v6_prefix, key_seed()) {}

keys_of_requests::keys_of_requests(std::vector<config::key_part> parts)
    : keys_of_requests(std::move(parts), 32, 64, weir::hash_seed()) {}

std::uint64_t keys_of_requests::client(boost::asio::ip::address const& address) const {
    return weir::client_key(address, v4_prefix_, v6_prefix_);
}

// A part is its value or, without one, an empty text. A client instead of a value follows an empty text, so that no value
// equals it.
template <class Text>
void keys_of_requests::add_parts(Text& text, request_info const& who) const {
    using kind = config::key_part::kind;
    for (auto const& part : parts_) {
        if (part.what == kind::client) {
            text.add(client(who.client));
            continue;
        }
        bool found = text.add(part, who);
        for (auto const& other : part.otherwise) {
            if (found)
                break;
            if (other.what == kind::client) {
                text.add(client(who.client));
                break;
            }
            text.remove();
            found = text.add(other, who);
        }
    }
}

std::uint64_t keys_of_requests::of(request_info const& who) const {
    if (is_client_)
        return client(who.client);
    key_text text;
    add_parts(text, who);
    return text.hash(seed_);
}

std::string keys_of_requests::text_of(request_info const& who) const {
    if (is_client_)
        return limiting::address_of_key(client(who.client)).to_string();
    key_text text;
    add_parts(text, who);
    return std::string(parts_.size() == 1 && !has_client_ ? text.last() : text.all());
}

limiting::path_names keys_of_requests::names_of(request_info const& who) const {
    limiting::path_names names;
    for (auto const& part : parts_) {
        if (part.what == config::key_part::kind::client) {
            names.add(limiting::address_of_key(client(who.client)).to_string());
            continue;
        }
        key_text text;
        bool found = text.add(part, who);
        for (auto const& other : part.otherwise) {
            if (found)
                break;
            text.remove();
            found = text.add(other, who);
        }
        // Keys are kept, so a long value would take much memory. The hash is longer than any value that is kept itself.
        if (text.last().size() <= config::limit::longest_name)
            names.add(text.last());
        else
            names.add(fmt::format("{:0>80x}", text.hash(seed_)));
    }
    return names;
}

std::uint64_t keys_of_requests::of(std::string const& text) const {
    key_text key;
    if (has_client_ && tool::network_of(text)) {
        auto const address = client(boost::asio::ip::make_address(text.substr(0, text.find('/'))));
        if (is_client_)
            return address;
        key.add(std::string_view());
        key.add(address);
    } else {
        key.add(text);
    }
    return key.hash(seed_);
}

std::optional<std::array<std::uint8_t, 16>> keys_of_requests::client_of(
    request_info const& who) const {
    bool const by_client = is_client_ || (has_client_ && !has_value(parts_.front(), who));
    return by_client ? std::optional(bytes_of(who.client)) : std::nullopt;
}

bool has_values(std::span<config::key_part const> parts, request_info const& who) {
    return std::ranges::all_of(parts, [&](config::key_part const& part) {
        return config::has_client(part) || has_value(part, who);
    });
}

http::fault fault_of_keys(std::span<config::key_part const> parts, request_info const& who) {
    using kind = config::key_part::kind;
    for (auto const& part : parts) {
        bool several = false;
        config::each_source(part, [&](config::key_part const& one) {
            several = several || count_of(one, who.request) > 1;
        });
        if (several)
            return {400,
                    "more than one value of a header, cookie or parameter that selects a limit"};
        bool const required = !part.otherwise.empty() && part.otherwise.back().what == kind::reject;
        if (required && !has_value(part, who))
            return {400, "the value that selects a limit is missing"};
    }
    return {};
}

place_in_queue::place_in_queue(config::limit const& c)
    : fair_(c.queue.order == weir::queue_order::fair),
      priority_(c.priority),
      weights_(limiting::weights_of(c)),
      v4_prefix_(c.v4_prefix),
      v6_prefix_(c.v6_prefix) {}

weir::request place_in_queue::standing_of(request_info const& who, weir::amount cost) const {
    weir::standing how;
    if (fair_)
        how.flow = weir::client_key(who.client, v4_prefix_, v6_prefix_);
    if (auto const* const weight = weights_.find(bytes_of(who.client)))
        how.weight = *weight;
    if (priority_)
        for (auto const& f : who.request.fields)
            if (http::iequals(f.name, *priority_))
                how.priority = limiting::priority_of(f.value);
    return {cost, how};
}

}  // namespace proxy
