#include "shared/mysql/sql.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/mysql/error_with_diagnostics.hpp>
#include <boost/mysql/handshake_params.hpp>
#include <boost/mysql/results.hpp>
#include <boost/mysql/statement.hpp>
#include <boost/mysql/unix.hpp>

#include <map>
#include <sstream>
#include <utility>

namespace support {

namespace asio = boost::asio;
namespace my = boost::mysql;

namespace {

// Converts an error of the server to the exception that the tests use.
template <class F>
auto translated(F f) {
    try {
        return f();
    } catch (my::error_with_diagnostics const& e) {
        throw sql_error(e.code().value(), e.code().message() + ": " +
                                              std::string(e.get_diagnostics().server_message()));
    }
}

}  // namespace

struct sql_session::body {
    asio::io_context context{1};
    my::unix_connection connection{context};
    std::map<std::string, my::statement> prepared;
};

sql_session::sql_session(std::string const& socket) : body_(std::make_unique<body>()) {
    translated([&] {
        asio::local::stream_protocol::endpoint const path(socket);
        body_->connection.connect(path, my::handshake_params("root", "", "weir"));
    });
}
sql_session::sql_session(sql_session&&) noexcept = default;
sql_session::~sql_session() = default;

std::vector<sql_session::row> sql_session::query(std::string_view text) {
    return translated([&] {
        my::results result;
        body_->connection.execute(text, result);
        std::vector<row> rows;
        for (auto const& r : result.rows()) {
            auto& next = rows.emplace_back();
            for (auto const& field : r) {
                std::ostringstream out;
                if (field.is_string())
                    out << field.as_string();
                else if (field.is_null())
                    out << "NULL";
                else
                    out << field;
                next.push_back(out.str());
            }
        }
        return rows;
    });
}

std::string sql_session::value_of(std::string_view text) {
    return query(text).at(0).at(0);
}

std::int64_t sql_session::number(std::string_view text) {
    return std::stoll(value_of(text));
}

std::future<std::vector<sql_session::row>> sql_session::start(std::string text) {
    return std::async(std::launch::async, [this, text = std::move(text)] { return query(text); });
}

std::uint64_t sql_session::insert(std::string const& text, std::vector<value> const& values) {
    return translated([&] {
        auto found = body_->prepared.find(text);
        if (found == body_->prepared.end())
            found = body_->prepared.emplace(text, body_->connection.prepare_statement(text)).first;
        std::vector<my::field_view> fields;
        for (auto const& v : values)
            std::visit([&](auto const& one) { fields.emplace_back(one); }, v);
        my::results result;
        body_->connection.execute(found->second.bind(fields.begin(), fields.end()), result);
        return result.last_insert_id();
    });
}

void kill_others(sql_session& s, std::string const& what, std::string const& condition) {
    constexpr int no_such_thread = 1094;
    for (auto const& row : s.query("select id from information_schema.processlist where "
                                   "id <> connection_id() and " +
                                   condition)) {
        try {
            s.query("kill " + what + " " + row[0]);
        } catch (sql_error const& e) {
            if (e.code() != no_such_thread)
                throw;
        }
    }
}

int lock_waits(sql_session& s) {
    auto const found = s.query("show global status like 'Innodb_row_lock_current_waits'");
    return std::stoi(found.at(0).at(1));
}

void wait_for_lock_waits(sql_session& s, int how_many) {
    while (lock_waits(s) != how_many) {}
}

}  // namespace support
