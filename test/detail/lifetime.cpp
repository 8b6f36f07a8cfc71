#include <weir/detail/lifetime.hpp>

#include <boost/test/unit_test.hpp>

#include <memory>

namespace {

struct host {
    struct event_type {
        void set() noexcept { is_set = true; }
        bool is_set = false;
    };
};
struct actor {};

using life = weir::detail::lifetime<actor, host>;
using rest = life::rest;

constexpr rest nothing{.work = false, .operations = false, .permits = false};
constexpr rest a_permit{.work = false, .operations = false, .permits = true};
constexpr rest an_operation{.work = true, .operations = true, .permits = false};

// An actor that owns itself as long as its `lifetime` decides.
struct living {
    living() {
        auto self = std::make_shared<actor>();
        watched = self;
        its.make_host();
        its.begin(std::move(self));
    }

    // The objects that end now.
    bool host_goes(rest const& left) {
        life::remains gone;
        bool const asked_again = its.let_go(left, gone);
        BOOST_TEST(asked_again == gone.host.has_value());
        return gone.host.has_value();
    }
    bool actor_goes(rest const& left) {
        {
            life::remains gone;
            static_cast<void>(its.let_go(left, gone));
        }
        return watched.expired();
    }

    life its;
    std::weak_ptr<actor> watched;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_limiter_in_use_keeps_everything) {
    living one;
    BOOST_TEST(!one.host_goes(nothing));
    BOOST_TEST(!one.actor_goes(nothing));
    BOOST_TEST(one.its.is_in_use());
}

BOOST_AUTO_TEST_CASE(a_destroyed_limiter_destroys_its_host_and_then_itself) {
    living one;
    one.its.abandon();
    BOOST_TEST(one.host_goes(nothing));
    BOOST_TEST(one.its.is_dead());
    BOOST_TEST(one.actor_goes(nothing));
}

BOOST_AUTO_TEST_CASE(remaining_work_keeps_the_host) {
    living one;
    one.its.abandon();
    BOOST_TEST(!one.host_goes(an_operation));
    BOOST_TEST(!one.its.is_dead());
    BOOST_TEST(one.host_goes(nothing));
}

BOOST_AUTO_TEST_CASE(a_working_thread_keeps_everything) {
    living one;
    one.its.abandon();
    one.its.work_begins();
    one.its.work_begins();
    one.its.work_ends();
    BOOST_TEST(!one.host_goes(nothing));
    one.its.work_ends();
    BOOST_TEST(one.host_goes(nothing));
    one.its.work_begins();  // destroys the host
    BOOST_TEST(!one.actor_goes(nothing));
    one.its.work_ends();
    BOOST_TEST(one.actor_goes(nothing));
}

BOOST_AUTO_TEST_CASE(a_permit_keeps_the_actor_and_not_the_host) {
    living one;
    one.its.abandon();
    BOOST_TEST(one.host_goes(a_permit));
    BOOST_TEST(!one.actor_goes(a_permit));
    BOOST_TEST(one.actor_goes(nothing));
}

BOOST_AUTO_TEST_CASE(the_end_of_the_context_destroys_everything_if_no_thread_works) {
    living one;
    host::event_type nobody_works;
    BOOST_TEST(!one.its.context_ends(nothing, nobody_works));
    BOOST_TEST(one.its.is_dead());
    {
        life::remains gone;
        one.its.context_has_ended(nothing, gone);
        BOOST_TEST(gone.host.has_value());
    }
    BOOST_TEST(one.watched.expired());
}

BOOST_AUTO_TEST_CASE(the_end_of_the_context_waits_for_working_threads_and_operations) {
    living one;
    host::event_type nobody_works;
    one.its.work_begins();
    BOOST_TEST(one.its.context_ends(an_operation, nobody_works));
    BOOST_TEST(!one.actor_goes(nothing));
    BOOST_TEST(!nobody_works.is_set);
    one.its.work_ends();
    BOOST_TEST(!one.actor_goes(an_operation));
    BOOST_TEST(!nobody_works.is_set);
    BOOST_TEST(!one.host_goes(nothing));  // the thread that ends the context takes it
    BOOST_TEST(nobody_works.is_set);
    life::remains gone;
    one.its.context_has_ended(nothing, gone);
    BOOST_TEST(gone.host.has_value());
}

BOOST_AUTO_TEST_CASE(after_the_end_of_the_context_the_last_permit_destroys_the_actor) {
    living one;
    host::event_type nobody_works;
    static_cast<void>(one.its.context_ends(a_permit, nobody_works));
    {
        life::remains gone;
        one.its.context_has_ended(a_permit, gone);
    }
    BOOST_TEST(!one.watched.expired());
    BOOST_TEST(!one.actor_goes(a_permit));
    BOOST_TEST(one.actor_goes(nothing));
}
