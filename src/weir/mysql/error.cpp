#include "error.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/mysql/client_errc.hpp>
#include <boost/mysql/common_server_errc.hpp>
#include <boost/mysql/error_categories.hpp>
#include <boost/mysql/mariadb_server_errc.hpp>
#include <boost/mysql/mysql_server_errc.hpp>

#include <algorithm>
#include <array>

namespace weir::inline v0_2::mysql::detail {
namespace {

namespace asio = boost::asio;
namespace my = boost::mysql;

// Errors that last until an option of the store or of the server changes.
constexpr std::array lasting{
    my::common_server_errc::er_dbaccess_denied_error,
    my::common_server_errc::er_access_denied_error,
    my::common_server_errc::er_bad_db_error,
    my::common_server_errc::er_host_not_privileged,
    my::common_server_errc::er_tableaccess_denied_error,
    my::common_server_errc::er_columnaccess_denied_error,
    my::common_server_errc::er_specific_access_denied_error,
    my::common_server_errc::er_bad_field_error,
    my::common_server_errc::er_no_such_table,
    my::common_server_errc::er_access_denied_no_password_error,
};
constexpr std::array lasting_here{
    my::client_errc::server_unsupported,
    my::client_errc::unknown_auth_plugin,
    my::client_errc::auth_plugin_requires_ssl,
    my::client_errc::server_doesnt_support_ssl,
};
// The server has ended a statement that took too long.
constexpr std::array slow{
    my::common_server_errc::er_lock_wait_timeout,
    my::common_server_errc::er_lock_deadlock,
    my::common_server_errc::er_query_interrupted,
};

template <class Codes>
bool is_any(error_code const& ec, Codes const& codes) {
    return std::ranges::any_of(codes, [&](auto code) { return ec == code; });
}

}  // namespace

failure_kind kind_of(error_code const& ec) noexcept {
    bool const is_untrusted = ec.category() == asio::error::get_ssl_category() &&
                              ec.message().find("verify failed") != std::string::npos;
    if (is_any(ec, lasting) || is_any(ec, lasting_here) || is_untrusted ||
        ec == asio::error::operation_not_supported)
        return failure_kind::misconfigured;
    bool const is_of_mariadb = ec.category() == my::get_mariadb_server_category();
    if (is_any(ec, slow) || ec == asio::error::timed_out ||
        (is_of_mariadb && ec.value() == my::mariadb_server_errc::er_statement_timeout))
        return failure_kind::no_reply;
    return failure_kind::refused;
}

}  // namespace weir::inline v0_2::mysql::detail
