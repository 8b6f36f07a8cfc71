#include <weir/detail/option_changes.hpp>

#include <boost/test/unit_test.hpp>

#include <stdexcept>
#include <vector>

namespace {

// A number under a lock, which a thread must not take twice.
struct guarded {
    class section {
    public:
        explicit section(guarded& of) : of_(of) {
            BOOST_TEST(!of_.is_locked);
            of_.is_locked = true;
        }
        section(section const&) = delete;
        section& operator=(section const&) = delete;
        ~section() { of_.is_locked = false; }

    private:
        guarded& of_;
    };

    template <class Change>
    void make(Change change) {
        auto const lock = [this] { return section(*this); };
        changes.make(
            lock,
            [this] {
                BOOST_TEST(is_locked);
                return number;
            },
            [&](int n) {
                BOOST_TEST(!is_locked);
                return change(n);
            },
            lock,
            [this](int n) {
                BOOST_TEST(is_locked);
                if (n < 0)
                    throw std::invalid_argument("negative");
                number = n;
            });
    }

    int number = 1;
    bool is_locked = false;
    weir::detail::option_changes changes;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_change_starts_from_the_options_in_force) {
    guarded it;
    it.make([](int n) { return n + 1; });
    it.make([](int n) { return n * 10; });
    BOOST_TEST(it.number == 20);
}

BOOST_AUTO_TEST_CASE(a_change_starts_again_from_options_that_another_thread_has_set_meanwhile) {
    guarded it;
    std::vector<int> seen;
    it.make([&](int n) {
        seen.push_back(n);
        if (seen.size() <= 2)
            it.make([](int other) { return other + 1; });
        return n * 10;
    });
    BOOST_TEST(seen == std::vector({1, 2, 3}), boost::test_tools::per_element());
    BOOST_TEST(it.number == 30);
}

BOOST_AUTO_TEST_CASE(another_change_that_fails_meanwhile_does_not_count) {
    guarded it;
    int calls = 0;
    it.make([&](int n) {
        ++calls;
        BOOST_CHECK_THROW(it.make([](int) { return -1; }), std::invalid_argument);
        return n * 10;
    });
    BOOST_TEST(calls == 1);
    BOOST_TEST(it.number == 10);
    BOOST_TEST(!it.is_locked);
}
