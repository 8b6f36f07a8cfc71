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
          row{"/...", "/..."}, row{"*", "*"}, row{"", ""}})
        BOOST_TEST(http::normal_path(target) == path, target);
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
