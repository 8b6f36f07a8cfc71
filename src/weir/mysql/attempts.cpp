#include "attempts.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/mysql/client_errc.hpp>
#include <boost/mysql/common_server_errc.hpp>
#include <boost/mysql/error_categories.hpp>
#include <boost/mysql/mariadb_server_errc.hpp>
#include <boost/mysql/mysql_server_errc.hpp>

#include <algorithm>
#include <array>
#include <utility>

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

time_point time_of(std::chrono::steady_clock::time_point t) {
    return time_point(std::chrono::duration_cast<duration>(t.time_since_epoch()));
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

std::string plain_text(boost::system::system_error const& e) {
    std::string text = e.what();
    if (!e.code().has_location())
        return text;
    auto const place = " at " + e.code().location().to_string();
    auto const begin = text.find(place);
    return begin == text.npos ? text : text.erase(begin, place.size());
}

void attempts::on_failure(std::function<void()> f) {
    std::lock_guard lock(mutex_);
    on_failure_ = std::move(f);
}

void attempts::succeeded() noexcept {
    std::lock_guard lock(mutex_);
    backoff_.succeeded();
    last_.reset();
}

void attempts::failed(boost::system::system_error const& why) {
    std::lock_guard lock(mutex_);
    failed_at_ = clock::now();
    backoff_.failed(backoff_.failures(), time_of(failed_at_));
    last_ = why;
    if (on_failure_)
        on_failure_();
}

attempts::clock::time_point attempts::retry_at() const noexcept {
    std::lock_guard lock(mutex_);
    return last_ ? clock::time_point(backoff_.retry_at().time_since_epoch())
                 : clock::time_point::min();
}

std::optional<connection_failure> attempts::failure(clock::time_point begin) const {
    std::lock_guard lock(mutex_);
    if (!last_)
        return std::nullopt;
    auto const now = time_of(clock::now());
    auto const pause = std::max(backoff_.retry_at(), now) - now;
    auto const kind = kind_of(last_->code());
    bool const is_remembered = failed_at_ < begin && kind != failure_kind::misconfigured;
    return connection_failure(*last_, is_remembered ? failure_kind::unsent : kind, pause);
}

}  // namespace weir::inline v0_2::mysql::detail
