#include "reload.hpp"

#include "config/read.hpp"
#include "file_shares.hpp"
#include "tool/trouble.hpp"

#include <boost/asio/post.hpp>

#include <fmt/format.h>

#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace proxy {

namespace {

// Keeps what applies at the next start.
void keep(config::configuration& c, config::configuration const& before) {
    c.threads = before.threads;
    c.state = before.state;
    c.admin.address = before.admin.address;
    c.admin.is_named = before.admin.is_named;
    if (c.agent != before.agent)
        c.warnings.emplace_back(
            "warning: a change of [agent], or of its store, applies at the next start");
    c.agent = before.agent;
}

}  // namespace

// The result of reading: a maker, or the errors.
struct reloader::loaded {
    std::unique_ptr<plan_maker> maker;
    std::vector<std::string> problems;
};

reloader::reloader(asio::io_context& context, reader again,
                   std::shared_ptr<plan const> const& in_force, applier apply)
    : context_(context), again_(std::move(again)), in_force_(in_force), apply_(std::move(apply)) {}

void reloader::join() {
    if (reads_.joinable())
        reads_.join();
}

void reloader::start() {
    if (!again_ || stopped_)
        return;
    if (is_reading()) {
        once_more_ = true;
        return;
    }
    reads_ = std::thread([this, before = in_force_] {
        auto result = std::make_shared<loaded>(load(before));
        asio::post(context_, [this, result] { finish(*result); });
    });
}

reloader::loaded reloader::load(std::shared_ptr<plan const> const& before) const {
    loaded result;
    try {
        auto c = again_();
        keep(c, before->configuration);
        result.maker =
            std::make_unique<plan_maker>(context_.get_executor(), c, share_out_files(c), before);
    } catch (config::bad_configuration const& e) {
        result.problems = e.problems();
    } catch (std::exception const& e) {
        result.problems = {tool::reason_of(e)};
    }
    return result;
}

void reloader::finish(loaded const& l) {
    reads_.join();
    auto problems = l.problems;
    if (l.maker && !stopped_) {
        try {
            apply_(*l.maker);
            tool::say(tool::level::info, "weir-proxy: configuration reloaded\n");
        } catch (std::exception const& e) {
            problems = {tool::reason_of(e)};
        }
    }
    for (auto const& line : problems)
        tool::say(tool::level::error, fmt::format("weir-proxy: {}\n", line));
    if (!problems.empty())
        tool::say(tool::level::error,
                  "weir-proxy: reload failed; the previous configuration stays active\n");
    if (std::exchange(once_more_, false))
        start();
}

}  // namespace proxy
