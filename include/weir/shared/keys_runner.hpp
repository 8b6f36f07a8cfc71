#pragma once

#include <weir/detail/read_clock.hpp>
#include <weir/error.hpp>
#include <weir/policy/fed_keys.hpp>
#include <weir/policy/keys_contact.hpp>
#include <weir/shared/key_name.hpp>
#include <weir/shared/last_failure.hpp>
#include <weir/shared/store.hpp>
#include <weir/time.hpp>

#include <boost/asio/error.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace weir::inline v0_2::detail {

/// Carries the commands of all parts of one limiter by key to its store, and the results back.
template <class Core, class Feed, class Clock>
class keys_runner final : public std::enable_shared_from_this<keys_runner<Core, Feed, Clock>> {
    using command_type = typename Feed::command_type;
    using question = policy::store_question;
    using answer = policy::store_answer;

public:
    keys_runner(std::shared_ptr<store> e, std::string name,
                std::shared_ptr<policy::keys_contact> contact)
        : store_(std::move(e)), name_(std::move(name)), contact_(std::move(contact)) {}

    /// Carries out the commands of a core from now on. Call it before any other function of the core.
    void add(std::shared_ptr<Core> const& core) {
        parts_.push_back(core);
        core->fed_by(std::make_shared<of_part>(this->shared_from_this(), core));
    }

    /// Checks a rule: throws the exception of the store.
    void validate(policy::shared_bucket const& b) const { store_->validate(b); }

    [[nodiscard]] store_failure failure() const { return failure_.get(); }

    /// Lets all parts look at what they share, if it has changed.
    void tell_all() noexcept {
        auto const changes = contact_->changes();
        if (told_.exchange(changes) == changes)
            return;
        for (auto const& one : parts_)
            if (auto const core = one.lock())
                core->modify_at(now(), [](auto&, time_point) {});
    }

private:
    class of_part final : public Feed::runner, public std::enable_shared_from_this<of_part> {
    public:
        of_part(std::shared_ptr<keys_runner> all, std::weak_ptr<Core> core)
            : all_(std::move(all)), core_(std::move(core)) {}

        void carry_out(command_type const& c) noexcept override {
            if (auto const* const q = std::get_if<question>(&c.what))
                ask(c, *q);
            else if (auto const* const back = std::get_if<policy::store_give_back>(&c.what))
                all_->give_back(c.of, *back);
            else
                all_->tell_all();
        }

    private:
        void ask(command_type const& c, question const& q) noexcept {
            try {
                all_->store_->async_take(
                    all_->name_of(c.of), q,
                    [self = this->shared_from_this(), c](error_code ec, answer const& a) {
                        self->receive(c, ec, a);
                    });
            } catch (...) {
                receive(c, boost::asio::error::no_memory, {.kind = failure_kind::unsent});
            }
        }
        void receive(command_type const& c, error_code ec, answer const& a) noexcept {
            auto const& q = std::get<question>(c.what);
            all_->failure_.note(ec, a.kind, a.text);
            bool is_received = false;
            if (auto const core = core_.lock())
                is_received = core->modify_at(now(), [&](auto& room, time_point t) {
                    ec ? room.failed(c.of, q, a, t) : room.answered(c.of, q, a, c.at, t);
                });
            if (!is_received && !ec && a.granted != 0)
                all_->give_back(c.of, {q.bucket, a.granted, a.since, q.timeout});
            all_->tell_all();
        }

        std::shared_ptr<keys_runner> all_;
        std::weak_ptr<Core> core_;
    };

    [[nodiscard]] static time_point now() noexcept { return detail::read_clock<Clock>(); }
    [[nodiscard]] std::string name_of(typename Feed::name const& who) const {
        return who.key ? name_of_key(name_, *who.key) : name_of_other_keys(name_);
    }
    void give_back(typename Feed::name const& who, policy::store_give_back const& what) noexcept {
        try {
            store_->async_give_back(name_of(who), what);
        } catch (...) {
            // Then the permits count as used.
        }
    }

    std::shared_ptr<store> store_;
    std::string name_;
    std::shared_ptr<policy::keys_contact> contact_;
    std::vector<std::weak_ptr<Core>> parts_;
    std::atomic<std::uint64_t> told_ = 0;  // changes
    last_failure failure_;
};

}  // namespace weir::inline v0_2::detail
