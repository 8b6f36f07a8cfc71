#pragma once

#include <weir/error.hpp>
#include <weir/redis/store.hpp>

#include "support/temporary_folder.hpp"
#include "weir/redis/scripts.hpp"

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/write.hpp>

#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace support {

/// A server whose replies the test chooses, in the context of the test: at a local socket, or at a free port of
/// 127.0.0.1.
class false_server {
    using protocol = boost::asio::generic::stream_protocol;

public:
    using words = std::vector<std::string>;
    struct session {
        explicit session(protocol::socket s) : socket(std::move(s)) {}
        protocol::socket socket;
        std::string unread = {};
        std::size_t scripts = 0;
        std::array<char, 65536> part{};
    };

    enum class place_kind : std::uint8_t { local, port };

    explicit false_server(boost::asio::io_context& ctx, place_kind where = place_kind::local)
        : acceptor_(ctx, where == place_kind::local ? local() : any_port()) {
        sockaddr_in at{};
        auto const found = acceptor_.local_endpoint();
        std::memcpy(&at, found.data(), std::min(sizeof at, found.size()));
        port_ = where == place_kind::port ? ":" + std::to_string(ntohs(at.sin_port)) : "";
        accept();
    }

    /// Returns the port behind a colon.
    [[nodiscard]] std::string const& port() const noexcept { return port_; }
    [[nodiscard]] weir::redis::options where() const {
        using namespace std::chrono_literals;
        auto const local_url = "unix:" + (folder_ / "socket").string();
        return {.url = port_.empty() ? local_url : "redis://127.0.0.1" + port_,
                .connect_timeout = 10s,
                .silent_for = 10s,
                .retry = {.initial = 1ms, .max = 1ms}};
    }

    /// Its replies to questions; it replies correctly to the rest, until it is `deaf`.
    std::function<std::string(int number)> say = [](int) { return granted(); };
    bool deaf = false;
    std::string say_to_asking = "+OK\r\n";
    /// Whether the server disconnects when it has received the last of the scripts.
    bool leaves = false;

    std::vector<std::shared_ptr<session>> sessions;
    int questions = 0;
    int asking = 0;          // commands `ASKING`
    std::vector<int> reads;  // the number of questions in each read

    static std::string granted() { return "*4\r\n:1\r\n:0\r\n:1700000000000000\r\n:0\r\n"; }

    void send(std::string const& text) {
        boost::asio::write(sessions.back()->socket, boost::asio::buffer(text));
    }
    void hang_up() { sessions.back()->socket.close(); }

private:
    [[nodiscard]] protocol::endpoint local() const {
        return boost::asio::local::stream_protocol::endpoint((folder_ / "socket").string());
    }
    static protocol::endpoint any_port() {
        return boost::asio::ip::tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0);
    }
    void accept() {
        acceptor_.async_accept([this](weir::error_code ec, protocol::socket s) {
            if (ec)
                return;
            sessions.push_back(std::make_shared<session>(std::move(s)));
            read(sessions.back());
            accept();
        });
    }
    void read(std::shared_ptr<session> const& s) {
        s->socket.async_read_some(
            boost::asio::buffer(s->part), [this, s](weir::error_code ec, std::size_t n) {
                if (ec) {
                    s->socket.close();
                    return;
                }
                s->unread.append(s->part.data(), n);
                auto const before = questions;
                while (auto const command = next(s->unread))
                    hear(*s, *command);
                if (questions != before)
                    reads.push_back(questions - before);
                if (s->socket.is_open())
                    read(s);
            });
    }
    void hear(session& s, words const& command) {
        if (deaf || !s.socket.is_open())
            return;
        std::string said = "+OK\r\n";
        if (command.front() == "ASKING") {
            ++asking;
            said = say_to_asking;
        }
        if (command.front() == "SCRIPT")
            said = "$40\r\n" + std::string(40, 'a') + "\r\n";
        else if (command.front().starts_with("EVAL"))
            said = say(questions++);
        if (!said.empty() && s.socket.is_open())
            boost::asio::write(s.socket, boost::asio::buffer(said));
        if (leaves && command.front() == "SCRIPT" &&
            ++s.scripts == weir::redis::detail::script_count)
            s.socket.close();
    }
    // Returns a whole command, if there is one.
    static std::optional<words> next(std::string& text) {
        std::istringstream in(text);
        char mark = 0;
        std::size_t count = 0;
        if (!(in >> mark >> count))
            return std::nullopt;
        words all;
        for (in.ignore(2); all.size() != count;) {
            std::size_t size = 0;
            if (!(in >> mark >> size))
                return std::nullopt;
            in.ignore(2);
            std::string word(size, '\0');
            if (!in.read(word.data(), static_cast<std::streamsize>(size)) || !in.ignore(2))
                return std::nullopt;
            all.push_back(std::move(word));
        }
        auto const end = in.tellg();
        if (end == std::istringstream::pos_type(-1))
            return std::nullopt;
        text.erase(0, static_cast<std::size_t>(end));
        return all;
    }

    temporary_folder folder_{"weir-false-redis-"};
    boost::asio::basic_socket_acceptor<protocol> acceptor_;
    std::string port_;
};

}  // namespace support
