#include "account.hpp"

#include <weir/client_key.hpp>

#include "limit.hpp"
#include "plan.hpp"
#include "routes.hpp"

#include <chrono>

namespace proxy {
namespace {

constexpr unsigned switching_protocols = 101;

}  // namespace

void account::expects(exchange& x) const {
    x.record = {};
    x.record.begun = net::clock::now();
}

void account::begins(exchange& x, std::string_view line) {
    ++counts_.requests;
    take_request_id(x.request.head, x.kept.id, ids_);
    x.record.id = x.kept.id;
    if (log_)
        x.record.line = x.kept.line.assign(line);
}

void account::describes(exchange& x) const {
    if (!log_)
        return;
    auto const& r = x.request.asked();
    x.record.line = x.kept.line.assign(r.method_name)
                        .append(1, ' ')
                        .append(r.target)
                        .append(x.request.head.version < 11 ? " HTTP/1.0" : " HTTP/1.1");
}

void account::ends(record const& r) {
    ++counts_[r.how];
    if (r.how == ending::rejected)
        rejects(*r.rejected_by, r.client);
    if (r.how == ending::failed && !r.trouble.empty())
        fails({r.to->to, r.server, r.trouble});
}

void account::rejects(limit const& by, boost::asio::ip::address const& client) {
    ++counts_.troubles;
    rejected_.count({by.id(), weir::client_key(client)});
}

void account::fails(upstream_trouble const& t) {
    ++counts_.troubles;
    troubles_.count(t);
}

void account::responds(record const& r, plan const& p, std::string_view peer) {
    // Read before `took`, so that the log tells no request to have begun too late.
    auto const ended =
        log_ ? std::chrono::system_clock::now() : std::chrono::system_clock::time_point();
    auto const took = net::clock::now() - r.begun;
    if (r.status != 0 && r.how != ending::disconnected)
        count_response(r, r.to ? *r.to->responses : *p.responses.none, took);
    if (log_)
        log(r, ended, took, peer, p.configuration.access_log_format);
}

void account::count_response(record const& r, response_counter& of_route,
                             net::clock::duration took) {
    of_route.count_status(r.status);
    if (r.how == ending::rejected)  // which takes no time, and would hide the time of the others
        return;
    counts_.count_status(r.status);
    // An upgraded connection stays open for as long as both sides want.
    if (r.status == switching_protocols)
        return;
    of_route.count_time(took);
    counts_.count_time(took);
}

void account::log(record const& r, std::chrono::system_clock::time_point ended,
                  net::clock::duration took, std::string_view peer, config::log_format format) {
    log_line const line{
        .ended = ended,
        .client = r.client_name.empty() ? peer : r.client_name,
        .request = r.line.empty() ? "-" : r.line,
        .status = r.status,
        .bytes = r.bytes,
        .took = took,
        .waited = r.waited,
        .throttled = r.throttled,
        .upstream = r.server ? std::string_view(r.server->name()) : "",
        .limit = r.rejected_by ? std::string_view(r.rejected_by->name()) : "",
        .id = r.id,
        .encryption = r.encryption};
    log(line, format);
}

void account::log(log_line const& line, config::log_format format) {
    log_->write(format == config::log_format::json ? json_of(line) : text_of(line));
}

account::troubles account::take_troubles() {
    troubles all{rejected_.all(), troubles_.all()};
    rejected_.clear();
    troubles_.clear();
    return all;
}

}  // namespace proxy
