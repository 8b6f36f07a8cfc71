// A server with minimal cost, for benchmarks of a proxy. It responds to each request header with the same kibibyte, or
// with the argument `empty` with a response without a body. Prints its port.

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

class connection : public std::enable_shared_from_this<connection> {
public:
    connection(tcp::socket socket, std::string const& canned)
        : socket_(std::move(socket)), canned_(canned) {
        socket_.set_option(tcp::no_delay(true));
    }

    void read() {
        socket_.async_read_some(
            asio::buffer(in_), [this, self = shared_from_this()](error_code ec, std::size_t n) {
                if (!ec)
                    answer(std::string_view(in_.data(), n));
            });
    }

private:
    void answer(std::string_view text) {
        out_.clear();
        for (char const c : text) {
            matched_ = c == "\r\n\r\n"[matched_] ? matched_ + 1 : c == '\r' ? 1 : 0;
            if (matched_ == 4) {
                matched_ = 0;
                out_ += canned_;
            }
        }
        if (out_.empty())
            return read();
        asio::async_write(socket_, asio::buffer(out_),
                          [this, self = shared_from_this()](error_code ec, std::size_t) {
                              if (!ec)
                                  read();
                          });
    }

    tcp::socket socket_;
    std::string const& canned_;  // the response
    std::array<char, 8192> in_;
    std::string out_;
    std::size_t matched_ = 0;
};

void accept(tcp::acceptor& acceptor, std::string const& canned) {
    acceptor.async_accept([&](error_code ec, tcp::socket socket) {
        if (!ec)
            std::make_shared<connection>(std::move(socket), canned)->read();
        accept(acceptor, canned);
    });
}

}  // namespace

int main(int argc, char** argv) {
    bool const is_empty = argc > 1 && std::string_view(argv[1]) == "empty";
    auto const canned =
        is_empty ? std::string("HTTP/1.1 204 No Content\r\n\r\n")
                 : "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
                   "Content-Length: 1024\r\n\r\n" +
                       std::string(1024, 'x');
    asio::io_context context(1);
    tcp::acceptor acceptor(context, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
    fmt::print("{}\n", acceptor.local_endpoint().port());
    std::fflush(stdout);
    accept(acceptor, canned);
    context.run();
}
