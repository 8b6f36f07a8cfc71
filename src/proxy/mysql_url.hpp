#pragma once

#include <weir/mysql/store.hpp>

#include <string>
#include <string_view>

namespace proxy {

/// Parses the URL of a store on MySQL or MariaDB, which starts with `mysql://`. Escapes in its parts are decoded.
/// Throws `tool::usage_error` if the URL is invalid; the message calls it `what` and does not contain it, because it
/// may contain a password.
[[nodiscard]] weir::mysql::options mysql_options(std::string const& what, std::string_view url);

}  // namespace proxy
