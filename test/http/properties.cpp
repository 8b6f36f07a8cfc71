#include "http/properties.hpp"

#include "support/random.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <string_view>

// Checks the properties for random messages. Most are well-formed, and the others nearly so.

namespace {

class generator {
public:
    explicit generator(support::random_source& random) noexcept : random_(random) {}

    std::string request() {
        auto text =
            one_of({"GET ", "POST ", "OPTIONS ", "HEAD ", "X-Y "}) +
            one_of({"/", "/a?b=c&a=%61", "*", "http://test", "http://TEST:80/a", "http://other/"}) +
            one_of({" HTTP/1.1\r\n", " HTTP/1.1\r\n", " HTTP/1.1\r\n", " HTTP/1.0\r\n"});
        if (!random_.one_in(10))
            text += one_of({"Host: test\r\n", "host:TEST:80 \r\n"});
        return damaged(text + fields() + "\r\n" + body());
    }

    std::string answer() {
        auto const text = one_of({"HTTP/1.1 ", "HTTP/1.1 ", "HTTP/1.0 "}) +
                          one_of({"200 OK\r\n", "200\r\n", "404 \r\n", "204 None\r\n",
                                  "304 Same\r\n", "103 Early\r\n", "101 Switch\r\n"});
        return damaged(text + fields() + "\r\n" + body());
    }

    std::string claims() {
        return damaged(one_of({"{\"a\":\"b\"}", "{\"a\":12}", "{\"b\":[1,{}],\"a\":\"\\u0062c\"}",
                               "{\"a\":\"b\",\"a\":\"c\"}"}));
    }

private:
    std::string one_of(std::initializer_list<std::string_view> texts) {
        return std::string(random_.one_of(texts));
    }

    std::string fields() {
        std::string text;
        for (auto n = random_.between(0, 5); n > 0; --n)
            text += one_of(
                {"Accept: a, b\r\n", "X-A:\t b\xe4 \r\n", "X_A: b\r\n", "X-A: c\r\n", "Date: a\r\n",
                 "Connection: close\r\n", "Connection: keep-alive, X-A\r\n",
                 "Connection: date, host, content-length\r\n", "Upgrade: h2c\r\n",
                 "Expect: 100-continue\r\n", "X-Forwarded-For: 10.0.0.1\r\n",
                 "x-forwarded-for: 10.0.0.2, 10.0.0.3\r\n", "X-Forwarded-Proto: https\r\n",
                 "x-forwarded-host: a\r\n", "TE: trailers\r\n", "Via: 1.0 a\r\n",
                 "Cookie: b=c; a=\"%62\"\r\n", "Connection: cookie\r\n",
                 "Authorization: Bearer e30.eyJhIjoxfQ.\r\n"});
        if (random_.one_in(50))
            for (auto n = random_.between(180, 200); n > 0; --n)
                text += "A: b\r\n";
        switch (random_.between(0, 6)) {
            case 0:
            case 1:
                return text + one_of({"Content-Length: 5\r\n", "Content-Length: 05\r\n",
                                      "Content-Length: 0\r\n"});
            case 2:
            case 3:
                return text + "Transfer-Encoding: chunked\r\n";
            case 4:
                return text + one_of({"Content-Length: 5\r\nContent-Length: 5\r\n",
                                      "Content-Length: 5\r\nContent-Length: 6\r\n",
                                      "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
                                      "Transfer-Encoding: gzip, chunked\r\n"});
            default:
                return text;
        }
    }

    std::string body() {
        std::string text;
        switch (random_.between(0, 3)) {
            case 0:
                return text;
            case 1:
                return "hello, world";
            default:
                break;
        }
        for (auto n = random_.between(0, 4); n > 0; --n)
            text += one_of({"5\r\nhello\r\n", "00A\r\n0123456789\r\n", "5 \r\n0\r\n\r\n\r\n",
                            "2 ;a=b\r\n\r\n\r\n", "1;a=\"b\"\r\n!\r\n"});
        return text + one_of({"0\r\n\r\n", "000;a\r\n\r\n", "0\r\nA: b\r\n\r\n",
                              "0 \r\n\r\nGET / HTTP/1.1\r\n"});
    }

    std::string damaged(std::string text) {
        for (auto n = random_.one_in(2) ? random_.between(1, 3) : 0; n > 0 && !text.empty(); --n) {
            auto const at = random_.index_in(text);
            switch (random_.between(0, 3)) {
                case 0:
                    text[at] = static_cast<char>(random_.bits());
                    break;
                case 1:
                    text.erase(at, static_cast<std::size_t>(random_.between(1, 3)));
                    break;
                case 2:
                    text.resize(at);
                    break;
                default:
                    text.insert(at, one_of({"\r\n", "\r", "\n", " ", "\t", ":", ",", ";", "0", "5",
                                            "f", std::string_view("\0", 1), "\x7f", "\r\n\r\n",
                                            "A: b\r\n", "_", "HTTP/1.1"}));
            }
        }
        return text;
    }

    support::random_source& random_;
};

// Calls `property` with random messages that are divided in different ways. Returns whether it accepted one.
template <class Property>
void check(Property property) {
    std::uint64_t messages = 0;
    std::uint64_t accepted = 0;
    support::for_each_seed(1, 10'000, [&](support::random_source& random) {
        ++messages;
        std::array<std::uint8_t, 3> lengths;
        for (auto& n : lengths)
            n = static_cast<std::uint8_t>(random.of_any_size(255));
        try {
            accepted += property(random, properties::cuts(lengths));
        } catch (properties::broken const& e) {
            BOOST_ERROR(e.what());
        }
    });
    BOOST_TEST((accepted > messages / 4 || std::getenv("WEIR_TEST_SEED")));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(properties_of_messages)

BOOST_AUTO_TEST_CASE(hold_for_requests) {
    check([](support::random_source& random, properties::cuts cuts) {
        auto const bytes = generator(random).request();
        auto const names = random.one_of({http::underscores::drop, http::underscores::pass});
        return properties::request(bytes, names, cuts);
    });
}

BOOST_AUTO_TEST_CASE(hold_for_responses) {
    check([](support::random_source& random, properties::cuts cuts) {
        auto const bytes = generator(random).answer();
        auto const method = random.one_of({http::verb::get, http::verb::head});
        return properties::answer(bytes, method, random.one_of({10u, 11u}), cuts);
    });
}

BOOST_AUTO_TEST_CASE(hold_for_claims) {
    check([](support::random_source& random, properties::cuts) {
        return properties::claims(generator(random).claims());
    });
}

BOOST_AUTO_TEST_SUITE_END()
