#pragma once

#include <weir/error.hpp>

#include <boost/system/error_category.hpp>

#include <type_traits>

namespace weir::inline v0_2::redis {

/// The errors that a Redis server returns for a question. In all cases except `protocol` it has granted nothing.
/// Connection errors have the codes of the system and of Asio.
enum class errc {
    /// An error other than the ones below: `store::check` reports it.
    rejected = 1,
    /// The server was started, and is loading its data.
    loading,
    /// The server is a replica, or the last node of an incomplete cluster. After a pause the store connects again,
    /// because another server may have the address by then.
    read_only,
    /// The server reached its `maxmemory`.
    out_of_memory,
    /// The nodes of a cluster redirected the question more than five times, or to an invalid address, or to more than
    /// 1,000 nodes: `store::check` reports where.
    moved,
    /// The cluster lacks a node for some keys, such as until a replica replaces it, or the servers have left it.
    cluster_down,
    /// The server has fewer replicas than it requires.
    no_replicas,
    /// The server cannot save its data, and so rejects changes.
    not_saved,
    /// The server is busy with another client's script.
    busy,
    /// The server requires a password, or rejected it.
    wrong_password,
    /// The user lacks permission.
    forbidden,
    /// The key holds a value of another type.
    wrong_kind,
    /// The reply is invalid.
    protocol,
    /// The server may evict keys, and so grant permits again: only `store::check` reports it.
    evicts,
    /// The certificate of the server is invalid, is from an unknown authority, or is not for the host of the URL.
    certificate,
    /// The TLS handshake failed for another reason: the server uses no TLS, or requires a certificate of the client.
    tls,
    /// The Sentinels know no primary of the name in the URL.
    unknown_primary,
};

/// Returns the category of `errc`.
[[nodiscard]] boost::system::error_category const& error_category() noexcept;

/// Returns the `error_code` of `e`.
[[nodiscard]] error_code make_error_code(errc e) noexcept;

}  // namespace weir::inline v0_2::redis

template <>
struct boost::system::is_error_code_enum<weir::redis::errc> : std::true_type {};
