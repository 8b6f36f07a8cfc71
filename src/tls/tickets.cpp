#include "tickets.hpp"

#include "context.hpp"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <algorithm>
#include <stdexcept>

namespace tls {
namespace {

void fill(std::span<unsigned char> bytes) {
    if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1)
        throw std::runtime_error("OpenSSL has no random numbers");
}

ticket_keys::key make_key() {
    ticket_keys::key made;
    fill(made.name);
    fill(made.encryption);
    fill(made.authentication);
    return made;
}

}  // namespace

std::shared_ptr<ticket_keys> make_ticket_keys() {
    return std::make_shared<ticket_keys>(std::chrono::steady_clock::now());
}

ticket_keys::key::~key() {
    OPENSSL_cleanse(this, sizeof *this);
}

ticket_keys::ticket_keys(time_point now) : current_(make_key()), since_(now) {}

ticket_keys::key ticket_keys::current(time_point now) {
    std::lock_guard const lock(mutex_);
    change_if_due(now);
    return current_;
}

std::optional<ticket_keys::found_key> ticket_keys::find(
    std::span<unsigned char const, name_size> name, time_point now) {
    std::lock_guard const lock(mutex_);
    change_if_due(now);
    if (std::ranges::equal(name, current_.name))
        return found_key{current_, true};
    if (previous_ && std::ranges::equal(name, previous_->name))
        return found_key{*previous_, false};
    return std::nullopt;
}

void ticket_keys::change_if_due(time_point now) {
    if (now < since_ + change)
        return;
    // Without connections there was no change in time.
    if (now < since_ + 2 * change)
        previous_ = current_;
    else
        previous_.reset();
    current_ = make_key();
    since_ = now;
}

}  // namespace tls
