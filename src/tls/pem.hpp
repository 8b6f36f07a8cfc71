#pragma once

#include "openssl.hpp"

#include <sys/stat.h>

#include <string>
#include <string_view>

// Files in PEM format.
namespace tls {

/// Throws `std::runtime_error`, which names the file and the reason.
[[noreturn]] void fail_at(std::string const& file, std::string_view why);

/// Opens a regular file. Fails if its mode has one of the `forbidden` bits, which concern a key. Clears OpenSSL's errors
/// of the thread.
[[nodiscard]] bio_ptr open_pem(std::string const& file, mode_t forbidden = 0);

}  // namespace tls
