// The admin server of a proxy: its paths, its events, and changes of rules.

#include "proxy/operator_view.hpp"

#include "config/read.hpp"
#include "local_proxy.hpp"
#include "support/captured_error.hpp"

#include <boost/asio/ip/address.hpp>
#include <boost/test/unit_test.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

// Files of this folder are compiled together.
namespace operators {
namespace {

using namespace std::chrono_literals;
using support::status_of;
using support::wire;

std::string limit(std::string_view name, std::string_view rule = "9/1s",
                  std::string_view more = "") {
    return fmt::format("[[limit]]\nname = \"{}\"\nrule = \"{}\"\n{}\n", name, rule, more);
}

/// A proxy that serves an administrator on virtual time. Its threads are not running.
class administered {
public:
    explicit administered(std::string const& limits) {
        auto const text = fmt::format("[admin]\naddress = \"unix:{}\"\nwrite = true\n"
                                      "[[upstream]]\nname = \"a\"\nservers = [\"unix:/b\"]\n{}",
                                      path(), limits);
        plan = proxy::plan_maker(context_.get_executor(), config::read(text, "test"),
                                 {.clients = 100, .admin = 100, .upstream = 100}, nullptr)
                   .make();
        threads.add(1, plan, nullptr);
        view.emplace(context_, dog_,
                     proxy::operator_view::sources{.plan = plan,
                                                   .now = phase,
                                                   .threads = threads,
                                                   .log = nullptr,
                                                   .is_changing = [this] { return is_changing; }});
        view->open(plan->configuration.admin, 10);
        view->start();
    }
    ~administered() {
        for (auto const& l : plan->limits)
            l->close();
    }

    [[nodiscard]] wire connect() const { return support::connect_to(path()); }
    void settle() {
        support::virtual_time::forget_due();
        context_.restart();
        for (int handlers = 0; context_.poll_one() > 0; ++handlers)
            BOOST_REQUIRE(handlers < 50'000);
    }
    void pass(net::clock::duration d) {
        support::pass(d, [this] { settle(); });
    }
    /// The response to a request on a new connection.
    std::string ask(std::string_view request) {
        auto client = connect();
        client.send(request);
        settle();
        auto const first = client.take();
        client.close();
        settle();
        return first;
    }
    std::string get(std::string_view target, std::string_view method = "GET") {
        return ask(fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\n\r\n", method, target));
    }
    std::string put(std::string_view name, std::string_view rule) {
        return ask(head(name, rule.size()).append(rule));
    }
    static std::string head(std::string_view name, std::size_t size,
                            std::string_view method = "PUT") {
        return fmt::format("{} /limits/{} HTTP/1.1\r\nHost: localhost\r\n"
                           "Content-Type: text/plain\r\nContent-Length: {}\r\n\r\n",
                           method, name, size);
    }
    /// The client of a `POST` without its response.
    wire post(std::string_view path, std::string_view rule = "") {
        auto client = connect();
        client.send(head(path, rule.size(), "POST").append(rule));
        settle();
        return client;
    }
    /// The response, of which another thread makes a part.
    std::string wait_for(wire& client) {
        for (auto const end = std::chrono::steady_clock::now() + 2min;
             std::chrono::steady_clock::now() < end;) {
            settle();
            if (auto text = client.take(); !text.empty())
                return text;
            context_.restart();
            context_.run_one_for(1ms);
        }
        return "";
    }

private:
    [[nodiscard]] std::string path() const { return folder_ / "admin"; }

    support::temporary_folder folder_{"weir-admin-"};
    boost::asio::io_context context_{1};
    net::watchdog dog_{context_};

public:
    std::shared_ptr<proxy::plan const> plan;
    proxy::phase phase = proxy::phase::serving;
    bool is_changing = false;
    proxy::threads threads{context_};
    std::optional<proxy::operator_view> view;
};

std::string body_of(std::string const& response) {
    auto const at = response.find("\r\n\r\n");
    return at == response.npos ? "" : response.substr(at + 4);
}

bool has(std::string_view text, std::string_view part) {
    return text.find(part) != text.npos;
}

/// The number of the last second in a stream of events.
std::string last_second(std::string_view events) {
    constexpr std::string_view mark = "\"last\":{\"second\":";
    auto const at = events.rfind(mark);
    BOOST_REQUIRE(at != events.npos);
    auto const rest = events.substr(at + mark.size());
    return std::string(rest.substr(0, rest.find(',')));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(an_administrator)

BOOST_AUTO_TEST_CASE(sees_whether_the_proxy_is_ready) {
    administered some(limit("a"));
    struct row {
        proxy::phase now;
        unsigned status;
        std::string_view text;
    };
    for (auto const& [now, status, text] :
         {row{proxy::phase::starting, 503, "not ready yet\n"},
          row{proxy::phase::serving, 200, "ready\n"},
          row{proxy::phase::draining, 503, "draining\n"}}) {
        some.phase = now;
        auto const response = some.get("/readyz");
        BOOST_TEST(status_of(response) == status);
        BOOST_TEST(body_of(response) == text);
        BOOST_TEST(status_of(some.get("/healthz")) == 200u);
    }
    BOOST_TEST(has(some.get("/stats.json"), "The proxy is shutting down"));
}

BOOST_AUTO_TEST_CASE(gets_no_body_for_head) {
    administered some(limit("a"));
    auto const whole = some.get("/");
    auto const head = some.get("/", "HEAD");
    BOOST_TEST(status_of(head) == 200u);
    BOOST_TEST(body_of(head) == "");
    BOOST_TEST(support::field_of(head, "Content-Length") == std::to_string(body_of(whole).size()));
}

BOOST_AUTO_TEST_CASE(changes_a_rule_by_the_name_of_its_limit) {
    administered some(limit("a b"));
    auto const rule = [&] { return to_string(some.plan->limits.front()->configuration().rule); };
    BOOST_TEST(status_of(some.put("a%20b", "8/1s")) == 200u);
    BOOST_TEST(rule() == "8/1s");
    BOOST_TEST(status_of(some.put("a%20b", "7/1s \r\n")) == 200u);  // as a file may end
    BOOST_TEST(rule() == "7/1s");
    BOOST_TEST(status_of(some.put("a", "6/1s")) == 404u);
    BOOST_TEST(status_of(some.put("a%2", "6/1s")) == 400u);
    BOOST_TEST(rule() == "7/1s");
    some.is_changing = true;
    BOOST_TEST(status_of(some.put("a%20b", "6/1s")) == 503u);
    BOOST_TEST(rule() == "7/1s");
    some.is_changing = false;
    BOOST_TEST(status_of(some.put("a%20b", "6/1s")) == 200u);
    BOOST_TEST(rule() == "6/1s");
}

BOOST_AUTO_TEST_CASE(undoes_a_change_by_the_name_of_its_limit) {
    administered some(limit("a b"));
    auto const undo = [&](std::string_view path) {
        auto client = some.post(path);
        return some.wait_for(client);
    };
    BOOST_TEST(status_of(some.put("a%20b", "8/1s")) == 200u);
    BOOST_TEST(has(some.get("/stats.json"), "\"changed\":{\"from\":\"9/1s\",\"at\":\"20"));
    some.is_changing = true;
    BOOST_TEST(status_of(undo("a%20b/undo")) == 503u);
    some.is_changing = false;
    BOOST_TEST(status_of(undo("a/undo")) == 404u);
    BOOST_TEST(status_of(undo("a%2/undo")) == 400u);
    BOOST_TEST(status_of(undo("a%20b/undo/")) == 405u);
    auto const done = undo("a%20b/undo");
    BOOST_TEST(status_of(done) == 200u);
    BOOST_TEST(body_of(done) == "9/1s\n");
    BOOST_TEST(status_of(undo("a%20b/undo")) == 409u);
    BOOST_TEST(!has(some.get("/stats.json"), "\"changed\""));
}

BOOST_AUTO_TEST_CASE(sees_the_effect_of_a_rule_before_the_change) {
    administered some(limit("a", "9/1s", "queue = \"patience 0s\""));
    auto& record = *some.plan->limits.front()->record();
    for (int i = 0; i != 12; ++i)
        record.add({.at = net::clock::now(), .granted = true});
    some.pass(1s);
    auto client = some.post("a/preview", "11/1s\r\n");
    auto const found = some.wait_for(client);
    BOOST_TEST(status_of(found) == 200u);
    BOOST_TEST(support::field_of(found, "Content-Type") == "application/json");
    BOOST_TEST(body_of(found) ==
               R"({"seconds":1,"requests":12,"kept":1,)"
               R"("now":{"rule":"9/1s","granted":9,"rejected":3,"waited":0,"p99_wait":0},)"
               R"("then":{"rule":"11/1s","granted":11,"rejected":1,"waited":0,"p99_wait":0}})");
    auto other = some.post("a/preview", "");
    BOOST_TEST(has(body_of(some.wait_for(other)), R"("then":{"rule":"12/1s","granted":12,)"));
    BOOST_TEST(to_string(some.plan->limits.front()->configuration().rule) == "9/1s");
}

// A preview of many requests takes long. Meanwhile the proxy serves other requests.
BOOST_AUTO_TEST_CASE(gets_one_preview_at_a_time) {
    auto const fill = [](administered& some) {
        auto const now = net::clock::now();
        for (int i = 0; i != 60'000; ++i)
            some.plan->limits.front()->record()->add({.at = now + i * 500us});
        some.pass(30s);
    };
    {
        administered some(limit("a", "900/1s"));
        fill(some);
        auto first = some.connect();
        auto second = some.connect();
        for (auto* const client : {&first, &second})
            client->send(administered::head("a/preview", 6, "POST").append("800/1s"));
        some.settle();
        BOOST_TEST(status_of(some.get("/healthz")) == 200u);
        auto const both = status_of(some.wait_for(first)) + status_of(some.wait_for(second));
        BOOST_TEST(both == 200u + 503u);
        auto third = some.post("a/preview", "800/1s");
        BOOST_TEST(status_of(some.wait_for(third)) == 200u);
    }
    // The proxy may end during a preview.
    administered other(limit("a", "900/1s"));
    fill(other);
    auto const unread = other.post("a/preview", "800/1s");
}

BOOST_AUTO_TEST_CASE(may_send_a_rule_in_parts_of_at_most_4096_bytes) {
    administered some(limit("a"));
    auto client = some.connect();
    for (std::string_view const part : {"8/", "1", "s"}) {
        client.send(part == "8/" ? administered::head("a", 4).append(part) : std::string(part));
        BOOST_TEST(client.take() == "");
        some.settle();
    }
    BOOST_TEST(status_of(client.take()) == 200u);
    std::string const blanks(4096 - 4, ' ');
    BOOST_TEST(status_of(some.put("a", "7/1s" + blanks)) == 200u);
    BOOST_TEST(status_of(some.put("a", "6/1s " + blanks)) == 413u);
    BOOST_TEST(to_string(some.plan->limits.front()->configuration().rule) == "7/1s");
}

BOOST_AUTO_TEST_CASE(cannot_watch_from_a_page_of_another_host) {
    administered some(limit("a"));
    BOOST_TEST(status_of(some.ask("GET /events HTTP/1.1\r\nHost: example.org\r\n\r\n")) == 403u);
    BOOST_TEST(status_of(some.get("/events")) == 200u);
    BOOST_TEST(status_of(some.get("/events", "HEAD")) == 405u);
}

// One connection in five is for other requests.
BOOST_AUTO_TEST_CASE(is_answered_while_others_watch) {
    administered some(limit("a"));
    std::list<wire> watchers;
    for (int i = 0; i != 8; ++i) {
        watchers.push_back(some.connect());
        watchers.back().send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
        some.settle();
        BOOST_TEST(status_of(watchers.back().take()) == 200u);
    }
    BOOST_TEST(status_of(some.get("/events")) == 503u);
    BOOST_TEST(status_of(some.get("/metrics")) == 200u);
    watchers.pop_back();
    some.pass(1s);
    BOOST_TEST(status_of(some.get("/events")) == 200u);
}

BOOST_AUTO_TEST_CASE(gets_an_event_each_second) {
    administered some(limit("a"));
    auto client = some.connect();
    client.send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    some.settle();
    auto const first = std::stoi(last_second(client.take()));
    for (int i = 1; i != 4; ++i) {
        some.pass(1s);
        BOOST_TEST(std::stoi(last_second(client.take())) == first + i);
    }
}

// The kernel buffers some events. After them comes the newest, not the next one.
BOOST_AUTO_TEST_CASE(that_reads_slowly_misses_events) {
    std::string limits;
    for (int i = 0; i != 100; ++i)
        limits += limit(std::to_string(i));
    administered some(limits);
    auto slow = some.connect();
    slow.send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    auto quick = some.connect();
    quick.send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    some.settle();
    std::size_t sent = 0;
    std::string newest;
    for (int i = 0; i != 9; ++i) {
        some.pass(1s);
        auto const events = quick.take();
        sent += events.size();
        newest = last_second(events);
    }
    std::string read;
    for (auto part = slow.take(); !part.empty(); part = slow.take()) {
        read += part;
        some.settle();
    }
    BOOST_TEST(!slow.ended());
    BOOST_TEST(read.size() < sent);
    BOOST_TEST(last_second(read) == newest);
}

BOOST_AUTO_TEST_CASE(sees_who_is_rejected) {
    administered some(limit("a"));
    proxy::record r;
    r.how = proxy::ending::rejected;
    r.rejected_by = some.plan->limits.front().get();
    auto& worker = some.threads.next();
    for (auto const* const client : {"192.0.2.1", "192.0.2.2", "192.0.2.2"}) {
        r.client = boost::asio::ip::make_address(client);
        worker.accounting().ends(r);
    }
    some.pass(1s);
    worker.context().poll();
    some.settle();
    auto const stats = some.get("/stats.json");
    auto const one = stats.find("\"192.0.2.1\"");
    auto const two = stats.find("\"192.0.2.2\"");
    BOOST_TEST(one != stats.npos);
    BOOST_TEST(two < one);
}

BOOST_AUTO_TEST_CASE(sees_connections_without_a_proxy_header) {
    using proxy::introduction_failure;
    std::string const trusts = "[clients]\ntrusted = [\"10.0.0.0/8\"]\n";
    std::string const listens = "[[listen]]\naddress = \"127.0.0.1:1\"\n";
    auto const told = [](administered& some) {
        return has(some.get("/stats.json"), "\"without_proxy_header\":{\"untrusted\":");
    };
    administered plain("[[route]]\nupstream = \"a\"\n" + listens);
    BOOST_TEST(!told(plain));
    administered some(
        "[[route]]\nupstream = \"a\"\n" + trusts + listens + "proxy_protocol = true\n");
    BOOST_TEST(told(some));
    support::captured_error error;
    auto& accounting = some.threads.next().accounting();
    some.pass(1s);
    BOOST_TEST(error.take() == "");
    accounting.lacks_introduction(introduction_failure::untrusted);
    accounting.lacks_introduction(introduction_failure::invalid);
    some.pass(1s);
    std::string const line = "weir-proxy: a connection lacks the header of the PROXY protocol: ";
    BOOST_TEST(error.take() == line + "the peer is not in trusted of [clients]\n" + line +
                                   "it begins with something else\n");
    accounting.lacks_introduction(introduction_failure::invalid);
    some.pass(60s);
    BOOST_TEST(error.take() == line + "it begins with something else (1 times in the last 60 s)\n");
    BOOST_TEST(has(some.get("/stats.json"), "\"untrusted\":1,\"invalid\":2,"));
}

// A warning at once, and its repetitions once a minute.
BOOST_AUTO_TEST_CASE(reads_the_number_of_repeated_errors_once_a_minute) {
    administered some("[[route]]\nupstream = \"a\"\n");
    auto& worker = some.threads.next();
    // Fails `times` requests, and passes a second.
    auto const fail = [&, to = &some.plan->routes.all().front()](std::string_view why, int times) {
        for (int i = 0; i != times; ++i) {
            proxy::record r;
            r.how = proxy::ending::failed;
            r.to = to;
            r.trouble = why;
            worker.accounting().ends(r);
        }
        some.pass(1s);
        worker.context().restart();
        worker.context().poll();
        some.settle();
    };
    std::string const line = "weir-proxy: upstream a: it is slow";
    support::captured_error error;
    fail("it is slow", 1);
    BOOST_TEST(error.take() == line + "\n");
    for (int i = 0; i != 20; ++i)
        fail("it is slow", 2);
    fail("it is gone", 1);
    BOOST_TEST(error.take() == "weir-proxy: upstream a: it is gone\n");
    some.pass(38s);
    BOOST_TEST(error.take() == "");
    some.pass(1s);
    BOOST_TEST(error.take() == line + " (40 times in the last 60 s)\n");

    // Without a repetition the next minute is silent, and then it is a new error.
    some.pass(60s);
    BOOST_TEST(error.take() == "");
    fail("it is slow", 3);
    BOOST_TEST(error.take() == line + "\n");
    some.pass(60s);
    BOOST_TEST(error.take() == line + " (2 times in the last 60 s)\n");
    some.view->warn("another error");
    some.view->warn("another error");
    BOOST_TEST(error.take() == "another error\n");
}

// A limit without a queue rejects for another reason than a limit whose queue is too long.
BOOST_AUTO_TEST_CASE(gets_a_report_of_each_limit) {
    administered some(limit("none", "1 seats", "queue = \"patience 0s\"") +
                      limit("some", "1 seats", "queue = \"patience 1s\"") +
                      limit("dry", "1 seats", "dry_run = true") +
                      "[[limit]]\nname = 'bytes'\nbandwidth = { down = '1MB/s' }\n"
                      "[[limit]]\nname = 'dry bytes'\nbandwidth = { up = '1MB/s' }\n"
                      "dry_run = true\nkey = 'client'\n");
    auto const report = some.view->report();
    BOOST_TEST(has(report, "weir-proxy: 0 connections (0 open), 0 requests: 0 answered"));
    for (auto const* const line :
         {"weir-proxy: none: 0 granted (0 immediately), rejected: 0 queue full, 0 timed out, "
          "0 wait too long, 0 disconnected; now 0 in use, 0 waiting\n",
          "weir-proxy: some: 0 granted (0 immediately), rejected: ",
          "weir-proxy: dry: 0 granted (0 immediately), would be rejected: ",
          "weir-proxy: bytes down: 0 bytes, which waited 0.000 s; now 0 waiting\n",
          "weir-proxy: dry bytes up: 0 bytes (0 would have waited), 0 clients\n"})
        BOOST_TEST(has(report, line), report);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace operators
