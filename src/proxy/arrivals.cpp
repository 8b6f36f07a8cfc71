#include "arrivals.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace proxy {

void arrivals::add(arrival const& a) noexcept {
    std::lock_guard const lock(mutex_);
    try {
        newest_ = std::max(newest_, a.at);
        if (last_.seen == 0)
            begin_of_last_ = newest_;
        else if (newest_ - begin_of_last_ >= longest_block) {
            close_block();
            begin_of_last_ = newest_;
        }
        auto const number = last_.seen++;
        if (is_keyed_ ? !keeps_key(a.key, level_) : (number & mask(level_)) != 0)
            return;
        last_.kept.push_back(a);
        if (last_.kept.size() == most_in_block)
            close_block();
    } catch (std::bad_alloc const&) {}
}

// Bounds the record each time a block is complete: the work for one request is at most that for about a thousand kept
// requests.
void arrivals::close_block() {
    last_.end = newest_;
    last_.kept.shrink_to_fit();
    closed_.push_back(std::make_shared<block const>(std::move(last_)));
    kept_ += closed_.back()->kept.size();
    last_ = block();
    while (closed_.front()->end < newest_ - span)
        drop_oldest();
    while (kept_ + most_in_block > most)
        make_room();
    if (level_ > 0 && kept_ < most / 4) {
        --level_;
        next_ = 0;
    }
    last_.level = level_;
}

// Thins the oldest block that is not thinned to the current level yet, or drops the oldest block.
void arrivals::make_room() {
    while (next_ != closed_.size() && closed_[next_]->level >= level_)
        ++next_;
    if (next_ == closed_.size()) {
        if (level_ == last_level || !halves_evenly()) {
            since_ = closed_.front()->end;
            return drop_oldest();
        }
        ++level_;
        next_ = 0;
    }
    auto& one = closed_[next_];
    auto half = thinned(*one);
    kept_ -= one->kept.size() - half->kept.size();
    one = std::move(half);
}

void arrivals::drop_oldest() {
    kept_ -= closed_.front()->kept.size();
    closed_.pop_front();
    next_ -= next_ == 0 ? 0 : 1;
}

// Whether no key has a large part of the requests, by the newest blocks.
bool arrivals::halves_evenly() const noexcept {
    if (!is_keyed_)
        return true;
    std::size_t all = 0;
    std::size_t half = 0;
    for (auto i = closed_.size(); i != 0 && all < 8 * most_in_block; --i) {
        auto const& b = *closed_[i - 1];
        if (b.level != level_)
            continue;
        all += b.kept.size();
        half += static_cast<std::size_t>(std::ranges::count_if(b.kept, [this](arrival const& a) {
            return keeps_key(a.key, level_ + 1);
        }));
    }
    return 8 * half >= 3 * all && 8 * half <= 5 * all;
}

std::shared_ptr<arrivals::block const> arrivals::thinned(block const& b) const {
    block half{.kept = {}, .seen = b.seen, .level = level_, .end = b.end};
    half.kept.reserve(b.kept.size() / 2 + 1);
    for (std::size_t i = 0; i != b.kept.size(); ++i)
        if (is_keyed_ ? keeps_key(b.kept[i].key, level_) : (i & mask(level_ - b.level)) == 0)
            half.kept.push_back(b.kept[i]);
    half.kept.shrink_to_fit();
    return std::make_shared<block const>(std::move(half));
}

arrivals::copy arrivals::at(net::clock::time_point now) const {
    std::lock_guard const lock(mutex_);
    copy all{.blocks = {closed_.begin(), closed_.end()},
             .is_keyed = is_keyed_,
             .since = std::max(since_, now - span),
             .until = now};
    all.blocks.push_back(std::make_shared<block const>(last_));
    return all;
}

}  // namespace proxy
