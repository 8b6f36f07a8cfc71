#pragma once

#include "head.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace http {

/// The head with which a request goes on to `upstream` (its name, for requests without a Host).
void compose(std::string& out, request_head const& request, std::string_view client,
             std::string_view upstream);

/// How the answer's body is sent to a client of this version.
[[nodiscard]] framing framing_for(unsigned version, answer_head const& answer) noexcept;

/// The head with which an answer goes back. `date` is used if the upstream has sent none.
void compose(std::string& out, answer_head const& answer, framing body, unsigned version,
             bool keep_alive, std::string_view date);

/// An answer of the proxy's own, with its body unless the request was a HEAD.
struct own_answer {
    unsigned status = 0;
    std::string_view why;
    std::optional<std::chrono::seconds> retry_after;
};
void compose(std::string& out, own_answer const& answer, bool is_head, unsigned version,
             bool keep_alive, std::string_view date);

}  // namespace http
