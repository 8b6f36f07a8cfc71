#pragma once

#include "configuration.hpp"
#include "table_reader.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// The kinds of values in a configuration.
namespace config {

[[nodiscard]] kind<bool> flag();
[[nodiscard]] kind<std::int64_t> number(std::int64_t least, std::int64_t most);
[[nodiscard]] kind<weir::duration> time(weir::duration least,
                                        weir::duration most = std::chrono::hours(24));
/// Non-empty text without control characters.
[[nodiscard]] kind<std::string> text(std::string expected);
/// The path of a local socket.
[[nodiscard]] kind<std::string> path_of_socket();
/// The mode of a file, such as 0660.
[[nodiscard]] kind<unsigned> file_mode();
/// A text of printable ASCII without spaces that starts with a slash.
[[nodiscard]] kind<std::string> target(std::string expected);
/// A text that can match the host of a request: a name, an address, or `*.` and a name.
[[nodiscard]] kind<std::string> host_of_route();
/// A text that can match `http::normal_path`. A last segment `*` is removed.
[[nodiscard]] kind<std::string> path_of_route();
/// A path that can begin the target of a request: `/`, or without a slash at its end.
[[nodiscard]] kind<std::string> path_of_upstream();
[[nodiscard]] kind<std::string> method();
/// `unlimited` gives an empty value.
[[nodiscard]] kind<override_rule> rule();
[[nodiscard]] kind<weir::queue_options> queue();
[[nodiscard]] kind<failure_mode> mode_of_failure();
[[nodiscard]] kind<listen_address> where_to_listen();
[[nodiscard]] kind<server> where_a_server_is();
/// `none` gives an empty value.
[[nodiscard]] kind<std::optional<server_address>> where_to_administer();
[[nodiscard]] kind<tool::network> network();
/// `total` gives an empty value.
[[nodiscard]] kind<std::optional<key_part>> part_of_key();
/// The cost of a request, without an estimate.
[[nodiscard]] kind<cost> cost_of_request();
/// A status of a response, or a class of them.
[[nodiscard]] kind<status_range> counted_status();
/// A part of a key that selects the server of a request.
[[nodiscard]] kind<key_part> part_of_hash();
/// A value of a header field that a request can have: not empty, without spaces at its ends.
[[nodiscard]] kind<std::string> value_of_field();
/// Whether `text` is a token of HTTP, such as a method or the name of a header field.
[[nodiscard]] bool is_token(std::string_view text);
[[nodiscard]] kind<std::string> token(std::string expected);
/// A value of an added field, from which `http::value_of` makes its parts.
[[nodiscard]] kind<std::string> field_value();

[[nodiscard]] kind<forwarded_by> way_of_forwarding();
[[nodiscard]] kind<described_by> way_of_describing();
[[nodiscard]] kind<unknown_name> what_unknown_names_get();
[[nodiscard]] kind<limit_headers> which_headers();
[[nodiscard]] kind<full_of_keys> what_further_keys_get();
[[nodiscard]] kind<log_format> way_of_logging();
[[nodiscard]] kind<tool::level> level();
[[nodiscard]] kind<std::string> media_type();
[[nodiscard]] kind<std::string> protocol();
[[nodiscard]] kind<seats_of_upgrade> how_long_seats_are_held();

}  // namespace config
