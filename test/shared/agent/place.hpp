#pragma once

#include <weir/agent/server.hpp>
#include <weir/agent/store.hpp>
#include <weir/shared/memory_store.hpp>

#include "shared/place.hpp"
#include "support/temporary_folder.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>

namespace support {

/// A store in memory that counts its questions, and that can be replaced by an error.
class counted_store final : public weir::store {
public:
    explicit counted_store(boost::asio::io_context& ctx)
        : memory(std::make_shared<weir::memory_store>(ctx)) {}

    std::shared_ptr<weir::memory_store> const memory;
    std::atomic<std::uint64_t> questions = 0;
    std::atomic<weir::amount> granted = 0;
    std::atomic<weir::amount> returned = 0;

    /// Replies to all further questions with this error.
    void fail_with(std::optional<weir::failure_kind> kind, std::string text = {}) {
        std::lock_guard const lock(mutex_);
        failure_ = kind;
        text_ = std::move(text);
    }
    [[nodiscard]] bool has(std::string const& name) const {
        std::lock_guard const lock(mutex_);
        return names_.contains(name);
    }

    void async_take(std::string const& name, question const& q, answer_handler handler) override {
        ++questions;
        std::optional<weir::failure_kind> failure;
        std::string text;
        {
            std::lock_guard const lock(mutex_);
            names_.insert(name);
            failure = failure_;
            text = text_;
        }
        auto then = [this, failure, text,
                     handler = std::move(handler)](weir::error_code ec, answer a) mutable {
            if (failure) {
                ec = boost::asio::error::access_denied;
                a = {.kind = *failure, .text = text};
            }
            granted += a.granted;
            std::move(handler)(ec, std::move(a));
        };
        auto asked = q;
        if (failure)
            asked.min = asked.max = q.bucket.burst + 1;
        memory->async_take(name, asked, std::move(then));
    }
    void async_give_back(std::string const& name, give_back const& what) override {
        returned += what.count;
        memory->async_give_back(name, what);
    }
    void validate(weir::policy::shared_bucket const& b) const override {
        if (b.burst == 13)
            throw std::invalid_argument("no burst of 13");
    }

private:
    std::mutex mutable mutex_;
    std::set<std::string> names_;
    std::optional<weir::failure_kind> failure_;
    std::string text_;
};

/// An agent on its own thread, over a store in memory.
class agent_process {
public:
    explicit agent_process(weir::agent::server_options options = {})
        : options_(std::move(options)) {
        options_.path = path();
        start();
    }
    agent_process(agent_process const&) = delete;
    agent_process& operator=(agent_process const&) = delete;
    ~agent_process() { stop(); }

    [[nodiscard]] std::string path() const { return (folder_ / "agent").string(); }
    [[nodiscard]] weir::agent::server& agent() { return *agent_; }
    [[nodiscard]] counted_store& store() { return *store_; }

    /// Ends the agent; its store keeps its data.
    void stop() {
        work_.reset();
        agent_.reset();
        if (thread_.joinable())
            thread_.join();
    }
    void start() {
        ctx_.restart();
        work_.emplace(ctx_.get_executor());
        agent_.emplace(ctx_, store_, options_);
        thread_ = std::jthread([this] { ctx_.run(); });
    }

private:
    temporary_folder folder_{"weir-agent-"};
    weir::agent::server_options options_;
    boost::asio::io_context ctx_;
    std::shared_ptr<counted_store> store_ = std::make_shared<counted_store>(ctx_);
    std::optional<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> work_;
    std::optional<weir::agent::server> agent_;
    std::jthread thread_;
};

/// One agent for all tests of a program.
inline agent_process& agent() {
    static agent_process one;
    return one;
}

/// A store at an agent.
struct agent_place : any_place {
    using server_type = agent_process;
    static boost::test_tools::assertion_result if_here(boost::unit_test::test_unit_id /*id*/) {
        return true;
    }

    server_type& home;
    std::shared_ptr<weir::agent::store> store = at(ctx, address());

    explicit agent_place(server_type& s = agent()) : home(s) {}

    static std::string address_of(std::string const& socket) { return socket; }
    [[nodiscard]] std::string address() const { return home.path(); }
    static std::shared_ptr<weir::agent::store> at(boost::asio::io_context& where,
                                                  std::string address) {
        return std::make_shared<weir::agent::store>(where, std::move(address));
    }
    [[nodiscard]] std::shared_ptr<weir::store> connect(boost::asio::io_context& where) const {
        return at(where, address());
    }
    [[nodiscard]] bool has(std::string const& name) const { return home.store().has(name); }
};

}  // namespace support
