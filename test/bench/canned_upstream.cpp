// An upstream with minimal cost, for benchmarks of a proxy: it responds to each request header with the same kibibyte.
// Prints its port.

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
    explicit connection(tcp::socket socket) : socket_(std::move(socket)) {
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
                out_ += canned();
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

    static std::string const& canned() {
        static auto const text =
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
            "Content-Length: 1024\r\n\r\n" +
            std::string(1024, 'x');
        return text;
    }

    tcp::socket socket_;
    std::array<char, 8192> in_;
    std::string out_;
    std::size_t matched_ = 0;
};

void accept(tcp::acceptor& acceptor) {
    acceptor.async_accept([&acceptor](error_code ec, tcp::socket socket) {
        if (!ec)
            std::make_shared<connection>(std::move(socket))->read();
        accept(acceptor);
    });
}

}  // namespace

int main() {
    asio::io_context context(1);
    tcp::acceptor acceptor(context, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
    fmt::print("{}\n", acceptor.local_endpoint().port());
    std::fflush(stdout);
    accept(acceptor);
    context.run();
}
