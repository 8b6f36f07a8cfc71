#pragma once

#include "shared/server_process.hpp"
#include "support/temporary_folder.hpp"

#include <boost/test/tree/decorator.hpp>
#include <boost/test/tree/test_unit.hpp>
#include <boost/test/unit_test_suite.hpp>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

namespace support {

/// A key, and a certificate signed with it: it is its own authority.
class certificate {
public:
    /// `names` are alternative names of a subject, such as `DNS:localhost,IP:127.0.0.1`. It is valid for `days` days
    /// from now; if there are fewer than 0, it has expired.
    explicit certificate(std::string const& names, int days = 2) {
        run({"req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
             "-keyout", key(), "-out", folder_ / "request.pem", "-subj", "/CN=weir", "-addext",
             "subjectAltName=" + names});
        run({"x509", "-req", "-in", folder_ / "request.pem", "-signkey", key(), "-days",
             std::to_string(days), "-copy_extensions", "copy", "-out", file()});
    }

    [[nodiscard]] std::string key() const { return folder_ / "key.pem"; }
    [[nodiscard]] std::string file() const { return folder_ / "certificate.pem"; }

    /// A precondition for tests that need certificates.
    static boost::test_tools::assertion_result if_possible(boost::unit_test::test_unit_id) {
        boost::test_tools::assertion_result found(std::filesystem::exists(openssl));
        found.message() << "there is no openssl; to mend it, run test/setup";
        return found;
    }

private:
    static constexpr char const* openssl = "/usr/bin/openssl";

    void run(std::vector<std::string> arguments) const {
        arguments.insert(arguments.begin(), openssl);
        if (server_process::run(arguments, "/dev/null", folder_ / "log") != 0)
            throw std::runtime_error("openssl made no certificate in " + folder_.string());
    }

    temporary_folder folder_{"weir-certificate-"};
};

}  // namespace support
