#include "pem.hpp"

#include <openssl/err.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>

namespace tls {

void fail_at(std::string const& file, std::string_view why) {
    throw std::runtime_error("`" + file + "`: " + std::string(why));
}

bio_ptr open_pem(std::string const& file, mode_t forbidden) {
    struct stat found{};
    if (::stat(file.c_str(), &found) != 0)
        fail_at(file, std::generic_category().message(errno));
    // Reading a pipe could block.
    if (!S_ISREG(found.st_mode))
        fail_at(file, "it is not a regular file");
    if (found.st_mode & forbidden)
        fail_at(file,
                "all users of this machine may read or write the key; change its mode to 0600");
    ERR_clear_error();
    bio_ptr in(BIO_new_file(file.c_str(), "r"));
    if (!in)
        fail_at(file, std::generic_category().message(errno));
    return in;
}

}  // namespace tls
