#include "key.hpp"

#include <weir/client_key.hpp>
#include <weir/key_hash.hpp>

#include "http/characters.hpp"
#include "http/path.hpp"
#include "limiting/request.hpp"

#include <boost/asio/ip/address.hpp>

#include <cstring>

namespace proxy {
namespace {

weir::hash_seed const& seed() {
    static weir::hash_seed const one = weir::hash_seed::random();
    return one;
}

// Parts cannot run into each other: each begins with its length.
void add(std::string& text, std::string_view part) {
    auto const size = static_cast<std::uint64_t>(part.size());
    char bytes[sizeof size];
    std::memcpy(bytes, &size, sizeof size);
    text.append(bytes, sizeof size).append(part);
}
void add(std::string& text, std::uint64_t key) {
    char bytes[sizeof key];
    std::memcpy(bytes, &key, sizeof key);
    add(text, std::string_view(bytes, sizeof key));
}

// What the upstream sees of the field: several lines are one list.
void add_field(std::string& text, http::request_head const& request, std::string_view name) {
    std::string value;
    for (auto const& f : request.fields)
        if (f.goes_on && http::iequals(f.name, name))
            value.append(value.empty() ? "" : ",").append(f.value);
    add(text, value);
}

}  // namespace

keys_of_requests::keys_of_requests(config::limit const& c)
    : parts_(c.key), v4_prefix_(c.v4_prefix), v6_prefix_(c.v6_prefix) {}

std::uint64_t keys_of_requests::client(boost::asio::ip::address const& address) const {
    return weir::client_key(address, v4_prefix_, v6_prefix_);
}

std::uint64_t keys_of_requests::of(asking const& who) const {
    using kind = config::key_part::kind;
    if (parts_.size() == 1 && parts_.front().what == kind::client)
        return client(who.client);
    std::string text;
    for (auto const& part : parts_) {
        switch (part.what) {
            case kind::client:
                add(text, client(who.client));
                break;
            case kind::header:
                add_field(text, who.request, part.name);
                break;
            case kind::segment:
                add(text, http::segment_of(http::normal_path(who.request.target), part.number));
                break;
        }
    }
    return weir::key_hash()(seed(), text);
}

std::uint64_t keys_of_requests::of(std::string const& text) const {
    if (parts_.front().what == config::key_part::kind::client)
        return client(boost::asio::ip::make_address(text.substr(0, text.find('/'))));
    std::string key;
    add(key, text);
    return weir::key_hash()(seed(), key);
}

place_in_queue::place_in_queue(config::limit const& c)
    : fair_(c.queue.order == weir::queue_order::fair),
      priority_(c.priority),
      v4_prefix_(c.v4_prefix),
      v6_prefix_(c.v6_prefix) {}

weir::request place_in_queue::standing_of(asking const& who) const {
    weir::standing how;
    if (fair_)
        how.key = weir::client_key(who.client, v4_prefix_, v6_prefix_);
    if (priority_)
        for (auto const& f : who.request.fields)
            if (http::iequals(f.name, *priority_))
                how.priority = limiting::priority_of(f.value);
    return {1, how};
}

}  // namespace proxy
