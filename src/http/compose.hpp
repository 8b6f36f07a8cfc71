#pragma once

#include "buffer.hpp"
#include "head.hpp"

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace http {

/// What is changed in a head that goes through. What is added takes the place of fields of the same name; none of it is
/// about the connection or the framing.
struct field_changes {
    std::vector<std::pair<std::string, std::string>> add;
    std::vector<std::string> remove;
};

/// The head with which a request goes on to `upstream` (its name, for requests without a Host), and asks for the protocol
/// `upgrade`, if there is one.
void compose(std::string& out, request_head const& request, std::string_view client,
             std::string_view upstream, field_changes const& changes = {},
             std::string_view upgrade = {});

/// How the answer's body is sent to a client of this version.
[[nodiscard]] framing framing_for(unsigned version, answer_head const& answer) noexcept;

/// The head with which an answer goes back. `date` is used if the upstream has sent none; `lines` are whole lines that
/// are added, unless the answer is an interim one.
void compose(std::string& out, answer_head const& answer, framing body, unsigned version,
             bool keep_alive, std::string_view date, field_changes const& changes = {},
             std::string_view lines = {});

/// The head of a 101 that goes over to the protocol `upgrade`.
void compose_switch(std::string& out, answer_head const& answer, std::string_view upgrade,
                    field_changes const& changes, std::string_view lines);

/// An answer of the proxy's own.
struct own_answer {
    unsigned status = 0;
    std::string_view type = {};  // of its body
    std::size_t length = 0;
    std::optional<std::chrono::seconds> retry_after = {};
    std::string_view lines = {};  // more of the header
};
/// Whether answers with such a status have a body, unless the request was a HEAD.
[[nodiscard]] constexpr bool has_body(unsigned status) noexcept {
    return status >= 200 && status != 204 && status != 304;
}
/// Its head.
void compose(std::string& out, own_answer const& answer, unsigned version, bool keep_alive,
             std::string_view date);

/// Makes one piece of `head`, which is the first of them, and the others, if these are so small that to copy them costs
/// less than to send several.
void join(gather& pieces, std::string& head);

}  // namespace http
