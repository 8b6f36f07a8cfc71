// The texts of subjects. The examples come from RFC 4514, 4, with hexadecimal digits in upper case.
#include "tls/client_certificates.hpp"

#include "tls/openssl.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

BOOST_AUTO_TEST_SUITE(subjects)

namespace {

using name_ptr = std::unique_ptr<X509_NAME, tls::freed_by<X509_NAME_free>>;

struct part {
    char const* type;
    std::string value;
    int set = 0;               // -1: the attribute belongs to the one before
    int kind = MBSTRING_UTF8;  // of `value`
};

// The text of a name, whose parts begin with the highest one.
std::string text(std::initializer_list<part> parts) {
    name_ptr const name(X509_NAME_new());
    for (auto const& p : parts)
        BOOST_REQUIRE(X509_NAME_add_entry_by_txt(
            name.get(), p.type, p.kind, reinterpret_cast<unsigned char const*>(p.value.data()),
            static_cast<int>(p.value.size()), -1, p.set));
    return tls::text_of(name.get());
}

std::string common_name(std::string value) {
    return text({{"CN", std::move(value)}});
}

BOOST_AUTO_TEST_CASE(have_the_text_of_the_standard) {
    part const net{"DC", "net", 0, V_ASN1_IA5STRING};
    part const example{"DC", "example", 0, V_ASN1_IA5STRING};
    BOOST_TEST(text({net, example, {"UID", "jsmith"}}) == "UID=jsmith,DC=example,DC=net");
    BOOST_TEST(text({net, example, {"CN", "J.  Smith"}, {"OU", "Sales", -1}}) ==
               "OU=Sales+CN=J.  Smith,DC=example,DC=net");
    BOOST_TEST(text({net, example, {"CN", R"(James "Jim" Smith, III)"}}) ==
               R"(CN=James \"Jim\" Smith\, III,DC=example,DC=net)");
    BOOST_TEST(text({net, example, {"CN", "Before\rAfter"}}) ==
               R"(CN=Before\0DAfter,DC=example,DC=net)");
    BOOST_TEST(common_name("Lu\xC4\x8Di\xC4\x87") == R"(CN=Lu\C4\8Di\C4\87)");
    BOOST_TEST(text({}).empty());
}

BOOST_AUTO_TEST_CASE(are_printable_without_blanks_at_the_ends) {
    for (int c = 0; c != 256; ++c)
        for (auto const& value : {std::string(1, static_cast<char>(c)),
                                  "a" + std::string(1, static_cast<char>(c)) + "b"}) {
            auto const found = text({{"CN", value, 0, V_ASN1_TELETEXSTRING}});
            BOOST_TEST_CONTEXT(c) {
                BOOST_TEST(found.starts_with("CN="));
                BOOST_TEST(
                    std::ranges::all_of(found, [](char one) { return one >= ' ' && one <= '~'; }));
                BOOST_TEST(!found.ends_with(' '));
            }
        }
    BOOST_TEST(common_name(" a ") == R"(CN=\ a\20)");
    BOOST_TEST(common_name("a\\ ") == R"(CN=a\\\20)");
    BOOST_TEST(common_name("a\\") == R"(CN=a\\)");
}

BOOST_AUTO_TEST_CASE(with_different_values_have_different_texts) {
    BOOST_TEST(common_name("a,O=b") != text({{"O", "b"}, {"CN", "a"}}));
    BOOST_TEST(common_name("a+O=b") != text({{"CN", "a"}, {"O", "b", -1}}));
    BOOST_TEST(common_name("\\0D") != common_name("\r"));
    BOOST_TEST(common_name("a\\20") != common_name("a "));
    BOOST_TEST(common_name(std::string("a\0b", 3)) != common_name("ab"));
    BOOST_TEST(common_name(std::string("a\0", 2)) != common_name("a"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
