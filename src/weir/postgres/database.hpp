#pragma once

#include "../sql/database.hpp"
#include "session.hpp"

namespace weir::inline v0_2::postgres::detail {

/// The connections of a store, and its statements.
class database : public weir::detail::sql::database<session> {
public:
    using weir::detail::sql::database<session>::database;
};

}  // namespace weir::inline v0_2::postgres::detail
