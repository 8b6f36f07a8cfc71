#include "support/cut.hpp"

#include <boost/test/tree/observer.hpp>
#include <boost/test/tree/traverse.hpp>
#include <boost/test/tree/visitor.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace ut = boost::unit_test;

constexpr int most_cuts = 300;

// Counts the handlers that each test calls.
class counts_handlers : public ut::test_observer {
public:
    /// The number of handlers of a test that ran, or else a number above that of any test.
    [[nodiscard]] int of(ut::test_case const& test) const {
        auto const found = calls_.find(test.p_id);
        return found == calls_.end() ? std::numeric_limits<int>::max() : found->second;
    }

private:
    void test_unit_start(ut::test_unit const&) override { support::cuts::called = 0; }
    void test_unit_finish(ut::test_unit const& test, unsigned long) override {
        calls_.emplace(test.p_id, support::cuts::called);
    }

    std::map<ut::test_unit_id, int> calls_;
};

counts_handlers handlers;

// After its last handler the whole test would run once more.
void run_with_cuts(ut::test_case const& test) {
    bool was_cut = !test.has_label("whole");
    auto const cuts = std::min(most_cuts, handlers.of(test));
    for (int n = 1; was_cut && n <= cuts; ++n) {
        support::cuts::left = n;
        try {
            test.p_test_func.get()();
            was_cut = false;
        } catch (support::cut) {}
    }
    support::cuts::left = -1;
}

class collects_cases : public ut::test_tree_visitor {
public:
    std::vector<ut::test_case*> cases;

private:
    void visit(ut::test_case const& found) override {
        cases.push_back(&ut::framework::get<ut::test_case>(found.p_id));
    }
};

// Returns the test cases of a file below test/, and disables all others.
std::vector<ut::test_case*> only(std::string const& file, std::vector<ut::test_case*> cases) {
    std::erase_if(cases, [&](ut::test_case* test) {
        // From the top of the project; clang writes no `./` before it.
        auto const path = '/' + std::string(test->p_file_name.begin(), test->p_file_name.end());
        bool const other = !path.ends_with("/test/" + file);
        if (other)
            test->p_default_status.value = ut::test_unit::RS_DISABLED;
        return other;
    });
    return cases;
}

// Sets up the tests like BOOST_TEST_MODULE, and adds the suite `cut`.
bool set_up() {
    auto& all = ut::framework::master_test_suite();
    all.p_name.value = "weir";
    ut::framework::register_observer(handlers);
    collects_cases found;
    ut::traverse_test_tree(all, found, true);
    if (all.argc == 2)
        found.cases = only(all.argv[1], std::move(found.cases));
    if (found.cases.empty())
        return false;
    if (!support::cuts::wanted)
        return true;
    auto* const cut = BOOST_TEST_SUITE("cut");
    for (auto const* const test : found.cases) {
        auto name = test->full_name();
        std::ranges::replace(name, '/', '.');
        cut->add(ut::make_test_case(
            [test] { run_with_cuts(*test); }, name, test->p_file_name, test->p_line_num));
    }
    all.add(cut);
    return true;
}

}  // namespace

// This file also builds the precompiled header of all tests.
int main(int argc, char* argv[]) {
    return ut::unit_test_main(set_up, argc, argv);
}
