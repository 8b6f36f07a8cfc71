#include "client_hello.hpp"

#include <algorithm>
#include <optional>
#include <vector>

namespace net {
namespace {

using hello = client_hello::state;

constexpr std::size_t record_head = 5;
constexpr std::size_t longest_fragment = 16 * 1024;
constexpr std::size_t message_head = 4;
constexpr std::size_t longest_name = 255;

constexpr std::size_t handshake_record = 22;
constexpr std::size_t major_version = 3;  // of each version of TLS
constexpr std::size_t client_hello_message = 1;
constexpr std::size_t server_name_extension = 0;
constexpr std::size_t host_name = 0;

std::size_t number_at(std::string_view bytes, std::size_t at, std::size_t size) noexcept {
    std::size_t n = 0;
    for (auto const c : bytes.substr(at, size))
        n = n << 8 | static_cast<unsigned char>(c);
    return n;
}

// Reads the fields of a message, one after the other. After a field that does not fit it is not `right` any more, and
// all further fields are empty.
class fields {
public:
    explicit fields(std::string_view bytes) noexcept : rest_(bytes) {}

    [[nodiscard]] bool right() const noexcept { return right_; }
    [[nodiscard]] bool empty() const noexcept { return rest_.empty(); }
    [[nodiscard]] bool all_read() const noexcept { return right_ && rest_.empty(); }

    std::string_view bytes(std::size_t n) noexcept {
        if (n > rest_.size()) {
            right_ = false;
            rest_ = {};
            return {};
        }
        auto const found = rest_.substr(0, n);
        rest_.remove_prefix(n);
        return found;
    }
    std::size_t number(std::size_t size) noexcept { return number_at(bytes(size), 0, size); }
    // Bytes after their number, which has `size` bytes.
    std::string_view vector(std::size_t size) noexcept { return bytes(number(size)); }

private:
    std::string_view rest_;
    bool right_ = true;
};

// The end of the ClientHello in the records.
struct extent {
    hello is = hello::incomplete;
    std::size_t size = 0;  // of the message
};

// Calls `each(fragment)` for the fragments of the first message, which may be divided among records in any way.
template <class Each>
extent read_records(std::string_view bytes, Each each) {
    std::string head;  // of the message
    std::size_t size = 0;
    while (!bytes.empty()) {
        if (number_at(bytes, 0, 1) != handshake_record ||
            (bytes.size() > 1 && number_at(bytes, 1, 1) != major_version))
            return {.is = hello::wrong};
        if (bytes.size() < record_head)
            break;
        auto const length = number_at(bytes, 3, 2);
        if (length == 0 || length > longest_fragment)
            return {.is = hello::wrong};
        bytes.remove_prefix(record_head);
        auto const fragment = bytes.substr(0, length);
        each(fragment);
        size += fragment.size();
        head += fragment.substr(0, message_head - head.size());
        if (!head.empty() && number_at(head, 0, 1) != client_hello_message)
            return {.is = hello::wrong};
        if (head.size() == message_head) {
            auto const whole = message_head + number_at(head, 1, 3);
            if (whole + record_head > client_hello::most_bytes)
                return {.is = hello::wrong};
            if (size >= whole)
                return {.is = hello::complete, .size = whole};
        }
        bytes.remove_prefix(fragment.size());
    }
    return {};
}

// The name in the extension; empty if it is wrong. Its list may have one name of each type, and no other type was ever
// defined.
std::optional<std::string_view> name_of(std::string_view extension) {
    fields all(extension);
    fields list(all.vector(2));
    auto const type = list.number(1);
    auto const name = list.vector(2);
    bool const is_right = all.all_read() && list.all_read() && type == host_name && !name.empty() &&
                          name.size() <= longest_name &&
                          std::ranges::all_of(name, [](char c) { return c > ' ' && c < 0x7f; });
    return is_right ? std::optional(name) : std::nullopt;
}

client_hello parse_message(std::string_view message) {
    client_hello wrong{.is = hello::wrong, .server_name = {}};
    client_hello found{.is = hello::complete, .server_name = {}};
    fields m(message);
    m.bytes(message_head);
    m.bytes(2);   // the version
    m.bytes(32);  // random
    auto const session = m.vector(1);
    auto const ciphers = m.vector(2);
    auto const compressions = m.vector(1);
    if (!m.right() || session.size() > 32 || ciphers.empty() || ciphers.size() % 2 != 0 ||
        compressions.empty())
        return wrong;
    if (m.empty())
        return found;
    fields extensions(m.vector(2));
    if (!m.all_read())
        return wrong;
    std::vector<std::size_t> types;
    while (!extensions.empty()) {
        types.push_back(extensions.number(2));
        auto const content = extensions.vector(2);
        if (!extensions.right())
            return wrong;
        if (types.back() != server_name_extension)
            continue;
        auto const name = name_of(content);
        if (!name)
            return wrong;
        found.server_name = *name;
    }
    std::ranges::sort(types);
    return std::ranges::adjacent_find(types) == types.end() ? found : wrong;
}

}  // namespace

client_hello parse_client_hello(std::string_view bytes) {
    bytes = bytes.substr(0, client_hello::most_bytes);
    auto const end = read_records(bytes, [](std::string_view) {});
    if (end.is == hello::complete) {
        std::string message;
        read_records(bytes, [&](std::string_view fragment) { message += fragment; });
        return parse_message(std::string_view(message).substr(0, end.size));
    }
    bool const is_too_long = bytes.size() == client_hello::most_bytes;
    return {.is = is_too_long ? hello::wrong : end.is, .server_name = {}};
}

std::string_view unrecognized_name_alert() noexcept {
    // A record of type 21 and version 1.2 with 2 bytes: fatal, 112.
    return {"\x15\x03\x03\x00\x02\x02\x70", 7};
}

}  // namespace net
