#include "http/path.hpp"

#include "support/random.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

BOOST_AUTO_TEST_SUITE(paths)

BOOST_AUTO_TEST_CASE(are_normalised_as_a_server_may_interpret_them) {
    struct row {
        std::string_view target, path;
    };
    for (auto const& [target, path] :
         {row{"/", "/"}, row{"/a/b", "/a/b"}, row{"/a/b?c=/d", "/a/b"}, row{"/a#b", "/a"},
          row{"/%61/%2e%2E/b", "/b"}, row{"/a%2fb", "/a/b"}, row{"/%2561", "/%61"},
          row{"/a%", "/a%"}, row{"/a%2", "/a%2"}, row{"/a%zz", "/a%zz"}, row{"//a///b/", "/a/b"},
          row{"/./a/.", "/a"}, row{"/a/../../b", "/b"}, row{"/..", "/"}, row{"/a/..", "/"},
          row{"/...", "/..."}, row{"*", "*"}, row{"", ""},
          // Many servers ignore parameters when they look for a resource.
          row{"/admin;x=1", "/admin"}, row{"/admin;", "/admin"}, row{"/a;b/c;d;e/", "/a/c"},
          row{"/;/admin", "/admin"}, row{"/;a", "/"}, row{"/a%3Bb", "/a"}, row{"/a?b;c", "/a"},
          row{"/a/..;b/c", "/c"},
          // Some servers ignore dots at the end of a name.
          row{"/admin.", "/admin"}, row{"/admin...", "/admin"}, row{"/admin%2e;x/b", "/admin/b"},
          row{"/a./b.", "/a/b"}, row{"/.a.", "/.a"}, row{"/a.b", "/a.b"},
          row{"/a/.../b", "/a/.../b"}})
        BOOST_TEST(http::normal_path(target) == path, target);
}

BOOST_AUTO_TEST_CASE(are_ambiguous_if_servers_interpret_them_differently) {
    for (auto const* const target : {"/a%00", "/%00", "/a#b", "/a?b#c", "/x/..;/admin", "/x/.;/a",
                                     "/x/%2e%2E;a/b", "/..%3b/a", "/x%2f..;y", "/x/.%2e%3Bz"})
        BOOST_TEST(http::is_ambiguous(target), target);
    for (auto const* const target :
         {"/", "/a", "*", "", "/a;b", "/a/../b", "/...;a", "/a..;b", "/%0", "/%", "/%2500",
          "/a?..;/b", "/a?%00", "/;/", "/a/.%", "/a/..%3", "/a;/../b"})
        BOOST_TEST(!http::is_ambiguous(target), target);
}

BOOST_AUTO_TEST_CASE(start_with_whole_segments) {
    struct row {
        std::string_view path, prefix;
        bool fits = true;
    };
    for (auto const& [path, prefix, fits] :
         {row{"/api", "/api"}, row{"/api", "/api/"}, row{"/api/x", "/api"},
          row{"/api/x", "/api/x/"}, row{"/apis", "/api", false}, row{"/", "/api", false},
          row{"/API", "/api", false}, row{"/", "/"}, row{"/x", "/"}})
        BOOST_TEST(http::begins_with(path, prefix) == fits, path << " " << prefix);
}

BOOST_AUTO_TEST_CASE(have_a_number_of_segments) {
    BOOST_TEST(http::count_segments("/") == 0u);
    BOOST_TEST(http::count_segments("/a") == 1u);
    BOOST_TEST(http::count_segments("/a/") == 1u);
    BOOST_TEST(http::count_segments("/a/b") == 2u);
}

BOOST_AUTO_TEST_CASE(get_another_prefix) {
    struct row {
        std::string_view target, strip, v2;  // after `/api` was replaced by `/` and by `/v2`
    };
    for (auto const& [target, strip, v2] :
         {row{"/api", "/", "/v2"}, row{"/api/", "/", "/v2/"}, row{"/api/x", "/x", "/v2/x"},
          row{"/api/x/", "/x/", "/v2/x/"}, row{"/api?a=/b", "/?a=/b", "/v2?a=/b"},
          row{"/api/?", "/?", "/v2/?"}, row{"/api/a?b/../c//d", "/a?b/../c//d", "/v2/a?b/../c//d"},
          // Other segments keep their spelling.
          row{"/api/%41;x=1/%2541", "/%41;x=1/%2541", "/v2/%41;x=1/%2541"},
          row{"/api/a%2Fb%3Fc", "/a%2Fb%3Fc", "/v2/a%2Fb%3Fc"},
          // The prefix may be spelled in several ways.
          row{"/%61pi/x", "/x", "/v2/x"}, row{"/api;a=1/x", "/x", "/v2/x"},
          row{"//api//x", "/x", "/v2/x"}, row{"/a/../api/./x", "/x", "/v2/x"},
          row{"/api%2Fx", "/x", "/v2/x"}, row{"/%2E/api%2fx%2fy", "/x%2fy", "/v2/x%2fy"},
          // No target leaves the new prefix, or names a host.
          row{"/api//example.org/x", "/example.org/x", "/v2/example.org/x"},
          row{"/api/%2F/x", "/x", "/v2/x"}, row{"/api/a/../../api/b", "/b", "/v2/b"},
          row{"/api/a/..", "/", "/v2/"}, row{"/api/a/.", "/a/", "/v2/a/"},
          row{"/api/a/%2e%2E/b", "/b", "/v2/b"}, row{"/api/a%2F../b", "/b", "/v2/b"}}) {
        std::string out = "previous content";
        http::replace_prefix(out, target, 1, "/");
        BOOST_TEST(out == strip, target);
        http::replace_prefix(out, target, 1, "/v2");
        BOOST_TEST(out == v2, target);
    }
    std::string out;
    for (auto const* const target : {"/", "/a", "/a/?b"}) {
        http::replace_prefix(out, target, 0, "/v2");
        BOOST_TEST(out == "/v2" + std::string(target));
        http::replace_prefix(out, target, 0, "/");
        BOOST_TEST(out == target);
    }
    http::replace_prefix(out, "*", 0, "/v2");
    BOOST_TEST(out == "*");
    http::replace_prefix(out, "/a/b/c", 2, "/d/e");
    BOOST_TEST(out == "/d/e/c");
}

// The upstream resolves the new target to the new prefix, and behind it to the segments that the route did not match.
BOOST_AUTO_TEST_CASE(get_a_prefix_that_no_spelling_leaves) {
    std::size_t tried = 0;
    support::for_each_seed(1, 5'000, [&](support::random_source& random) {
        std::string target = "/";
        for (auto n = random.between(0, 12); n > 0; --n)
            target += random.one_of({"/", "/", "a", "b", ".", "..", "%2f", "%2F", "%2e", "%25", "%",
                                     ";", "%3b", "%61", "2", "f"});
        if (http::is_ambiguous(target))
            return;
        target += random.one_of({"", "?", "?a/../b"});
        auto const whole = http::normal_path(target);
        for (std::size_t count = 0; count != 3; ++count) {
            std::string_view rest = whole;
            for (std::size_t n = 0; n != count && !rest.empty(); ++n)
                rest = rest.substr(std::min(rest.find('/', 1), rest.size()));
            if (http::count_segments(whole) < count)
                continue;
            if (rest == "/")
                rest = "";
            for (std::string const prefix : {"/", "/v/2"}) {
                std::string out;
                http::replace_prefix(out, target, count, prefix);
                auto expected = (prefix == "/" ? "" : prefix) + std::string(rest);
                if (expected.empty())
                    expected = "/";
                BOOST_TEST(http::normal_path(out) == expected, target << " " << out);
                BOOST_TEST(out.substr(std::min(out.find('?'), out.size())) ==
                           target.substr(std::min(target.find('?'), target.size())));
                BOOST_TEST(!out.starts_with("//"));
                ++tried;
            }
        }
    });
    BOOST_TEST(tried != 0u);
}

BOOST_AUTO_TEST_SUITE_END()
