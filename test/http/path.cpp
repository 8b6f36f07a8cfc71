#include "http/path.hpp"

#include <boost/test/unit_test.hpp>

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
          row{"/a/..;b/c", "/c"}})
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

BOOST_AUTO_TEST_SUITE_END()
