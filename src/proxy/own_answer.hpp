#pragma once

#include "config/configuration.hpp"
#include "exchange.hpp"
#include "http/buffer.hpp"
#include "problem.hpp"

#include <span>
#include <string_view>

namespace proxy {

/// The whole answer by which the proxy says `what`, in the form that the client wants most. It lies in `x` and in
/// `bodies`; the record says what is sent.
[[nodiscard]] http::gather write_answer(exchange& x, std::span<config::body const> bodies,
                                        problem const& what, bool keep_alive,
                                        std::string_view date);

}  // namespace proxy
