#include "cluster.hpp"

#include <boost/asio/error.hpp>
#include <boost/crc.hpp>

#include <algorithm>
#include <new>
#include <utility>

namespace weir::inline v0_2::redis::detail {
namespace {

namespace asio = boost::asio;

constexpr std::size_t slot_count = 16384;

}  // namespace

// The algorithm is part of the specification of Redis Cluster: CRC-16/XMODEM of the part in braces.
std::size_t slot_of(std::string_view key) {
    auto const open = key.find('{');
    auto const close = open == key.npos ? key.npos : key.find('}', open + 1);
    if (close != key.npos && close != open + 1)
        key = key.substr(open + 1, close - open - 1);
    boost::crc_xmodem_t crc;
    crc.process_bytes(key.data(), key.size());
    return crc.checksum() % slot_count;
}

cluster::cluster(asio::any_io_executor ex, options const& o, std::shared_ptr<servers> known)
    : connect_timeout_(o.connect_timeout),
      servers_(std::move(known)),
      home_(std::make_shared<client>(std::move(ex), o, servers_)) {}

void cluster::begin() {
    home_->begin();
}

void cluster::run(script what, std::string const& name, std::vector<std::string> arguments,
                  duration timeout, script_command::handler h) {
    send(what, key_of(what, name), std::move(arguments), timeout, std::move(h));
}

void cluster::check(std::string const& name, script_command::handler h) {
    send({}, key_of(script::take, name), {}, connect_timeout_, std::move(h));
}

void cluster::send(std::optional<script> what, std::string key, std::vector<std::string> arguments,
                   duration timeout, script_command::handler h) {
    auto made = std::make_unique<script_command>();
    made->what = what;
    made->key = std::move(key);
    made->arguments = std::move(arguments);
    made->until = later(clock_time(), timeout);
    made->whom = std::move(h);
    made->nodes = shared_from_this();
    auto to = home_;
    if (is_cluster_) {
        std::lock_guard lock(mutex_);
        if (auto const n = slots_[slot_of(made->key)])
            to = nodes_[n - 1U].at;
    }
    commands one;
    one.push_back(std::move(made));
    to->add(one);
}

bool cluster::redirect(commands& ended, client const& by) {
    auto& one = static_cast<script_command&>(*ended.front());
    try {
        auto const to = next_for(one, by);
        if (!to)
            return false;
        ++one.redirections;
        one.said = {};
        one.is_answer = false;
        one.in_full = false;
        one.asks = one.asks && one.elsewhere;
        one.elsewhere.reset();
        commands alone;
        alone.splice(alone.end(), ended, ended.begin());
        try {
            to->add(alone);
        } catch (std::bad_alloc const&) {
            ended.splice(ended.begin(), alone);
            throw;
        }
    } catch (std::bad_alloc const&) {
        one.said = {.error = asio::error::no_memory, .kind = failure_kind::unsent};
        return false;
    }
    return true;
}

// Returns the client that the command goes to next; null: none.
std::shared_ptr<client> cluster::next_for(script_command& one, client const& by) {
    if (one.elsewhere) {
        auto to = client_at(*one.elsewhere, one.key, !one.asks);
        return one.redirections == most_redirections ? nullptr : to;
    }
    bool const has_left = one.is_answer && says_cluster_is_down(one.said.text);
    if (&by == home_.get() || (one.is_answer && !has_left))
        return nullptr;
    if (has_left)
        forget(by);
    bool const may_repeat = !one.said.lost && one.said.kind != failure_kind::misconfigured;
    return may_repeat && !std::exchange(one.has_returned, true) ? home_ : nullptr;
}

// Returns the client for a node, and remembers that the slot of the key belongs to it if that is lasting. Null: the
// context has ended, or there are too many nodes.
std::shared_ptr<client> cluster::client_at(address const& where, std::string_view key,
                                           bool is_lasting) {
    auto const place = where.to_string();
    servers_->learn(where);
    std::lock_guard lock(mutex_);
    slots_.resize(slot_count);
    auto found = std::ranges::find(nodes_, place, &node::place);
    if (found == nodes_.end()) {
        auto made = home_->make_client(where, weak_from_this());
        if (!made)
            return nullptr;
        if (nodes_.size() < most_nodes)
            found = nodes_.emplace(nodes_.end());
        else
            found = std::ranges::find(nodes_, false, &node::has_slots);
        if (found == nodes_.end())
            return nullptr;
        *found = {place, std::move(made)};
    }
    if (is_lasting) {
        slots_[slot_of(key)] = static_cast<std::uint16_t>(found - nodes_.begin() + 1);
        found->has_slots = true;
    }
    is_cluster_ = true;
    return found->at;
}

void cluster::forget(client const& gone) {
    std::lock_guard lock(mutex_);
    auto const is_it = [&](node const& one) { return one.at.get() == &gone; };
    auto const found = std::ranges::find_if(nodes_, is_it);
    if (found == nodes_.end() || !std::exchange(found->has_slots, false))
        return;
    auto const number = static_cast<std::uint16_t>(found - nodes_.begin() + 1);
    std::ranges::replace(slots_, number, std::uint16_t{0});
}

}  // namespace weir::inline v0_2::redis::detail
