#include "cost.hpp"

#include "http/characters.hpp"
#include "tool/text.hpp"

#include <algorithm>
#include <string_view>

namespace proxy {
namespace {

// The value of the field `name`, a whole number up to the largest cost. A message with several such fields has none.
template <class Fields>
std::optional<weir::amount> value_of(Fields const& fields, std::string_view name) noexcept {
    std::optional<weir::amount> found;
    bool has_one = false;
    for (auto const& f : fields) {
        if (!http::iequals(f.name, name))
            continue;
        if (has_one)
            return std::nullopt;
        has_one = true;
        found = tool::number_of(f.value);
    }
    return found && *found <= config::cost::most ? found : std::nullopt;
}

}  // namespace

weir::amount amount_of(std::uint64_t bytes) noexcept {
    constexpr auto most = static_cast<std::uint64_t>(config::cost::most);
    return static_cast<weir::amount>(std::min(bytes, most));
}

weir::amount cost_of(config::cost const& c, request_info const& who) noexcept {
    using kind = config::cost::kind;
    auto const& request = who.request;
    if (c.what == kind::header && who.is_trusted)
        return value_of(request.fields, c.name).value_or(c.estimate);
    if (c.what == kind::bytes && request.body == http::framing::none)
        return 0;
    if (c.what == kind::bytes && request.body == http::framing::length)
        return amount_of(request.length);
    return c.estimate;
}

std::optional<weir::amount> cost_of_response(config::cost const& c,
                                             http::answer_head const& answer) noexcept {
    return c.what == config::cost::kind::response_header
               ? value_of(answer.fields, c.name)
               : std::nullopt;
}

}  // namespace proxy
