#pragma once

#include <weir/error.hpp>

#include <boost/system/error_category.hpp>

#include <type_traits>

namespace weir::redis {

/// Why a server does not answer a question. In all these cases but `protocol` it has granted nothing. What is wrong
/// with the connection has the codes of the system and of Asio.
enum class errc {
    /// Another error than those below: `store::check` says which.
    rejected = 1,
    /// It has been started, and reads its data.
    loading,
    /// It is a replica, or the last of a cluster that is not whole. After a pause a new connection is made, since
    /// there may be another server under the address by then.
    read_only,
    /// It has used up its `maxmemory`.
    out_of_memory,
    /// It belongs to a cluster, and another server of that has the key: `store::check` says which.
    moved,
    /// It belongs to a cluster that is not whole, or is being changed.
    cluster_down,
    /// Not as many replicas as it wants are there.
    no_replicas,
    /// It cannot save its data, and so changes none.
    not_saved,
    /// It is busy with a script of somebody else.
    busy,
    /// It wants a password, or another one.
    wrong_password,
    /// The user may not do that there.
    forbidden,
    /// There is something else under the name.
    wrong_kind,
    /// What came is no answer to what was asked.
    protocol,
};

/// The category of `errc`.
[[nodiscard]] boost::system::error_category const& error_category() noexcept;

[[nodiscard]] error_code make_error_code(errc e) noexcept;

}  // namespace weir::redis

template <>
struct boost::system::is_error_code_enum<weir::redis::errc> : std::true_type {};
