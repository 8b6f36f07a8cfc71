#pragma once

#include "net/asio.hpp"

#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace proxy {

/// A line for each request, from any thread:
///
///     2024-05-01T12:00:00.123Z 127.0.0.1 "GET /dish HTTP/1.1" 200 1024 0.305 0.104
///
/// time, client, request, status, bytes of the answer, seconds in all, and of these in the queue.
class access_log {
public:
    /// Throws `std::system_error` if the file cannot be opened; `-` is standard output.
    explicit access_log(std::string const& file);

    struct line {
        std::string_view client;
        std::string_view request;
        unsigned status = 0;
        std::uint64_t bytes = 0;
        net::clock::duration took{};
        net::clock::duration waited{};
    };
    void write(line const& l);

private:
    struct closes {
        void operator()(std::FILE* f) const noexcept {
            if (f != stdout)
                std::fclose(f);
        }
    };
    std::mutex mutex_;
    std::unique_ptr<std::FILE, closes> file_;
};

}  // namespace proxy
