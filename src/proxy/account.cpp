#include "account.hpp"

#include <weir/client_key.hpp>

#include "client.hpp"
#include "limit.hpp"
#include "routes.hpp"

#include <chrono>

namespace proxy {

void account::expects(exchange& x) const {
    x.record = {};
    if (log_)
        x.record.begun = net::clock::now();
}

void account::begins(exchange& x, std::string_view line) {
    ++counts_.requests;
    if (!log_)
        return;
    x.record.line = x.kept.line.assign(line);
    take_request_id(x.request.head, x.kept.id, ids_);
    x.record.id = x.kept.id;
}

void account::comes_from(exchange& x, boost::asio::ip::address const& client) const {
    if (log_)
        x.record.client_name = x.kept.client = name_of(client);
}

void account::ends(record const& r) {
    ++counts_[r.how];
    if (r.how == ending::rejected)
        rejected_.count({r.rejected_by->id(), weir::client_key(r.client)});
    if (r.how == ending::failed && !r.trouble.empty())
        troubles_.count({r.to->to, r.server, r.trouble});
}

void account::log(record const& r, std::string_view peer, config::log_format format) {
    if (!log_)
        return;
    log_line const line{
        .ended = std::chrono::system_clock::now(),  // read before `took`, so no begin is late
        .client = r.client_name.empty() ? peer : r.client_name,
        .request = r.line.empty() ? "-" : r.line,
        .status = r.status,
        .bytes = r.bytes,
        .took = net::clock::now() - r.begun,
        .waited = r.waited,
        .upstream = r.server ? std::string_view(r.server->name()) : "",
        .limit = r.rejected_by ? std::string_view(r.rejected_by->name()) : "",
        .id = r.id};
    log_->write(format == config::log_format::json ? json_of(line) : text_of(line));
}

account::troubles account::take_troubles() {
    troubles all{rejected_.all(), troubles_.all()};
    rejected_.clear();
    troubles_.clear();
    return all;
}

}  // namespace proxy
