#pragma once

#include "head.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace http {

/// A value that a request may have several times.
struct named_value {
    std::size_t count = 0;
    std::string value = {};  // the first one; empty without one
};

/// The name or the address in a Host, without its port and the dot of the DNS root.
[[nodiscard]] std::string_view name_of_host(std::string_view host) noexcept;

/// The number of forwarded lines of a header field.
[[nodiscard]] std::size_t count_lines(head const& h, std::string_view name) noexcept;

/// A cookie of a request, from all its forwarded Cookie fields. Names are case-sensitive. The value is without quotes and
/// percent-decoded, as many servers decode it.
[[nodiscard]] named_value cookie_of(head const& h, std::string_view name);

/// A parameter in the query of a target, as HTML forms encode it: separated by `&`, percent-decoded, with `+` for a
/// space. Names are case-sensitive.
[[nodiscard]] named_value parameter_of(std::string_view target, std::string_view name);

/// The claim `name` of the JSON Web Token in an Authorization field with the scheme Bearer, if it is text or a whole
/// number; otherwise, or if the token is malformed, empty. The signature is not verified.
[[nodiscard]] std::string claim_of(std::string_view authorization, std::string_view name);
/// The claim `name` of the token in the first forwarded Authorization field of a request.
[[nodiscard]] std::string claim_of(head const& h, std::string_view name);

}  // namespace http
