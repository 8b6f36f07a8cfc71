#include "own_response.hpp"

namespace proxy {

http::gather write_response(exchange& x, std::span<config::body const> bodies, problem const& what,
                            bool keep_alive, std::string_view date,
                            http::changes_of_message const& changes) {
    auto const body = choose_body(bodies, what, x.kept.accept, x.body);
    bool const has_body = x.request.head.method != http::verb::head && http::has_body(what.status);
    x.record.status = what.status;
    x.record.bytes = has_body ? body.text.size() : 0;
    http::compose(x.out,
                  {.status = what.status,
                   .type = body.type,
                   .length = body.text.size(),
                   .retry_after = what.retry_after,
                   .lines = what.lines},
                  x.request.head.version, keep_alive, date, changes);
    http::gather out{x.out};
    if (has_body)
        out.emplace_back(body.text);
    http::join(out, x.out);
    return out;
}

}  // namespace proxy
