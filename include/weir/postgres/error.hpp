#pragma once

#include <weir/error.hpp>

#include <boost/system/error_category.hpp>

#include <string>
#include <string_view>

namespace weir::inline v0_2::postgres {

/// Returns the category of the error codes of a PostgreSQL server, its SQLSTATEs. The store also uses the class of
/// connection errors: `08001` if it cannot connect, `08004` if it or libpq rejects the server, such as for its
/// certificate, and `08006` if a connection breaks.
[[nodiscard]] boost::system::error_category const& sqlstate_category() noexcept;

/// Returns the error code of a SQLSTATE, such as `42P01`: five digits and capital letters. Other texts are `XX000`, an
/// internal error.
[[nodiscard]] error_code make_sqlstate(std::string_view text) noexcept;

/// Returns the SQLSTATE of an error code; empty if it is of another category.
[[nodiscard]] std::string sqlstate_of(error_code const& ec);

}  // namespace weir::inline v0_2::postgres
