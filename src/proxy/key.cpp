#include "key.hpp"

#include <weir/client_key.hpp>
#include <weir/key_hash.hpp>

#include "http/characters.hpp"
#include "http/path.hpp"
#include "limiting/request.hpp"

#include <boost/asio/ip/address.hpp>
#include <boost/container/small_vector.hpp>

#include <cstddef>
#include <cstring>

namespace proxy {
namespace {

weir::hash_seed const& seed() {
    static weir::hash_seed const one = weir::hash_seed::random();
    return one;
}

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
    // Adds the value as the upstream receives it: several lines form one list.
    void add_field(http::request_head const& request, std::string_view name) {
        begin();
        for (auto const& f : request.fields) {
            if (!f.goes_on || !http::iequals(f.name, name))
                continue;
            if (text_.size() != begun_)
                append(",");
            append(f.value);
        }
        end();
    }

    [[nodiscard]] std::uint64_t hash() const {
        return weir::key_hash()(seed(), std::string_view(text_.data(), text_.size()));
    }

private:
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

}  // namespace

keys_of_requests::keys_of_requests(config::limit const& c)
    : parts_(c.key), v4_prefix_(c.v4_prefix), v6_prefix_(c.v6_prefix) {}

std::uint64_t keys_of_requests::client(boost::asio::ip::address const& address) const {
    return weir::client_key(address, v4_prefix_, v6_prefix_);
}

std::uint64_t keys_of_requests::of(request_info const& who) const {
    using kind = config::key_part::kind;
    if (parts_.size() == 1 && parts_.front().what == kind::client)
        return client(who.client);
    key_text text;
    for (auto const& part : parts_) {
        switch (part.what) {
            case kind::client:
                text.add(client(who.client));
                break;
            case kind::header:
                text.add_field(who.request, part.name);
                break;
            case kind::segment:
                text.add(http::segment_of(http::normal_path(who.request.target), part.number));
                break;
        }
    }
    return text.hash();
}

std::uint64_t keys_of_requests::of(std::string const& text) const {
    if (parts_.front().what == config::key_part::kind::client)
        return client(boost::asio::ip::make_address(text.substr(0, text.find('/'))));
    key_text key;
    key.add(text);
    return key.hash();
}

place_in_queue::place_in_queue(config::limit const& c)
    : fair_(c.queue.order == weir::queue_order::fair),
      priority_(c.priority),
      v4_prefix_(c.v4_prefix),
      v6_prefix_(c.v6_prefix) {}

weir::request place_in_queue::standing_of(request_info const& who) const {
    weir::standing how;
    if (fair_)
        how.flow = weir::client_key(who.client, v4_prefix_, v6_prefix_);
    if (priority_)
        for (auto const& f : who.request.fields)
            if (http::iequals(f.name, *priority_))
                how.priority = limiting::priority_of(f.value);
    return {1, how};
}

}  // namespace proxy
