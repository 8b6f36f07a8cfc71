#include "frames.hpp"

#include <concepts>
#include <type_traits>
#include <utility>

namespace weir::inline v0_2::agent::detail {
namespace {

using std::chrono::microseconds;

constexpr std::size_t size_of_length = 4;
// A name, a text and all numbers fit.
constexpr std::size_t longest_frame = 2048;

class writer {
public:
    explicit writer(std::string& to) noexcept : to_(to) {}

    void operator()(bool b) { (*this)(std::uint8_t{b}); }
    template <std::integral T>
    void operator()(T n) {
        auto rest = static_cast<std::make_unsigned_t<T>>(n);
        for (std::size_t i = 0; i != sizeof(T); ++i) {
            to_ += static_cast<char>(rest & 0xFF);
            if constexpr (sizeof(T) > 1)
                rest >>= 8;
        }
    }
    template <class T>
        requires std::is_enum_v<T>
    void operator()(T e) {
        (*this)(static_cast<std::underlying_type_t<T>>(e));
    }
    void operator()(microseconds d) { (*this)(std::int64_t{d.count()}); }
    void operator()(std::string const& text) {
        auto const kept = std::string_view(text).substr(0, longest_text);
        (*this)(static_cast<std::uint16_t>(kept.size()));
        to_ += kept;
    }

private:
    std::string& to_;
};

class reader {
public:
    explicit reader(std::string_view from) noexcept : from_(from) {}

    void operator()(bool& b) {
        std::uint8_t n = 0;
        (*this)(n);
        is_whole_ = is_whole_ && n <= 1;
        b = n != 0;
    }
    template <std::integral T>
    void operator()(T& n) {
        std::make_unsigned_t<T> made = 0;
        is_whole_ = is_whole_ && from_.size() >= sizeof(T);
        for (std::size_t i = 0; is_whole_ && i != sizeof(T); ++i)
            made |= static_cast<std::make_unsigned_t<T>>(
                std::make_unsigned_t<T>{static_cast<unsigned char>(from_[i])} << 8 * i);
        from_.remove_prefix(is_whole_ ? sizeof(T) : 0);
        n = static_cast<T>(made);
    }
    template <class T>
        requires std::is_enum_v<T>
    void operator()(T& e) {
        std::underlying_type_t<T> n{};
        (*this)(n);
        e = static_cast<T>(n);
    }
    void operator()(microseconds& d) {
        std::int64_t n = 0;
        (*this)(n);
        d = microseconds(n);
    }
    void operator()(std::string& text) {
        std::uint16_t size = 0;
        (*this)(size);
        is_whole_ = is_whole_ && size <= from_.size();
        if (!is_whole_)
            return;
        text.assign(from_.substr(0, size));
        from_.remove_prefix(size);
    }
    /// Returns whether the members were exactly the bytes.
    [[nodiscard]] bool is_exact() const noexcept { return is_whole_ && from_.empty(); }

private:
    std::string_view from_;
    bool is_whole_ = true;
};

// ---- The members of each message, in their order

template <class Visitor, class Bucket>
void each_of_bucket(Visitor& v, Bucket& b) {
    v(b.drained);
    v(b.permit);
    v(b.burst);
    v(b.window);
}

template <class Visitor, class Message>
void each(Visitor& v, Message& m) {
    using type = std::remove_const_t<Message>;
    if constexpr (std::is_same_v<type, hello>) {
        v(m.version);
    } else if constexpr (std::is_same_v<type, take>) {
        v(m.id);
        v(m.name);
        each_of_bucket(v, m.bucket);
        v(m.min);
        v(m.max);
        v(m.ahead);
        v(m.timeout);
    } else if constexpr (std::is_same_v<type, give_back>) {
        v(m.name);
        each_of_bucket(v, m.bucket);
        v(m.count);
        v(m.since);
    } else if constexpr (std::is_same_v<type, answer>) {
        v(m.id);
        v(m.what);
        v(m.granted);
        v(m.wait);
        v(m.since);
        v(m.is_new);
        v(m.text);
    } else {
        v(m.text);
    }
}

// ---- What a peer may send

bool is_valid(policy::shared_bucket const& b) noexcept {
    constexpr microseconds longest = std::chrono::hours(24) * 3650;
    return b.drained > 0 && b.permit > 0 && b.burst > 0 && b.burst <= max_amount && b.window >= 0 &&
           b.window <= longest.count();
}
bool is_valid(std::string const& name) noexcept {
    return !name.empty() && name.size() <= 255;
}

bool is_valid(hello const&) noexcept {
    return true;
}
bool is_valid(take const& q) noexcept {
    constexpr auto longest = std::chrono::hours(1);
    return is_valid(q.name) && is_valid(q.bucket) && q.min > 0 && q.min <= q.max &&
           q.max <= q.bucket.burst && q.ahead >= q.ahead.zero() && q.timeout > q.timeout.zero() &&
           q.timeout <= longest;
}
bool is_valid(give_back const& g) noexcept {
    return is_valid(g.name) && is_valid(g.bucket) && g.count > 0 && g.count <= g.bucket.burst &&
           g.since > 0;
}
bool is_valid(answer const& a) noexcept {
    return a.what <= answer::result::misconfigured && a.granted >= 0 && a.granted <= max_amount &&
           a.wait >= a.wait.zero() && a.since >= 0 && (a.granted == 0) == (a.since == 0);
}
bool is_valid(goodbye const&) noexcept {
    return true;
}

template <std::size_t... Kind>
bool read_as(std::uint8_t kind, std::string_view rest, message& to,
             std::index_sequence<Kind...> /*kinds*/) {
    auto const try_as = [&]<std::size_t K>(std::integral_constant<std::size_t, K>) {
        if (kind != K)
            return false;
        auto& m = to.emplace<K>();
        reader from(rest);
        each(from, m);
        return from.is_exact() && is_valid(m);
    };
    return (try_as(std::integral_constant<std::size_t, Kind>()) || ...);
}

}  // namespace

void encode(std::string& to, message const& m) {
    auto const begin = to.size();
    to.reserve(begin + size_of_length + longest_frame);  // after this, nothing fails
    writer out(to);
    out(std::uint32_t{0});  // the length
    out(static_cast<std::uint8_t>(m.index()));
    std::visit([&](auto const& one) { each(out, one); }, m);
    auto const size = to.size() - begin - size_of_length;
    for (std::size_t i = 0; i != size_of_length; ++i)
        to[begin + i] = static_cast<char>(size >> 8 * i & 0xFF);
}

void frame_reader::add(std::string_view bytes) {
    bytes_.erase(0, std::exchange(read_, 0));
    bytes_.append(bytes);
}

std::optional<message> frame_reader::next() {
    auto const unread = std::string_view(bytes_).substr(read_);
    if (is_invalid_ || unread.size() < size_of_length)
        return std::nullopt;
    std::uint32_t size = 0;
    reader(unread.substr(0, size_of_length))(size);
    is_invalid_ = size == 0 || size > longest_frame;
    if (is_invalid_ || unread.size() - size_of_length < size)
        return std::nullopt;
    auto const frame = unread.substr(size_of_length, size);
    std::optional<message> found(std::in_place);
    auto const kind = static_cast<std::uint8_t>(frame.front());
    using kinds = std::make_index_sequence<std::variant_size_v<message>>;
    is_invalid_ = !read_as(kind, frame.substr(1), *found, kinds());
    if (is_invalid_)
        return std::nullopt;
    read_ += size_of_length + size;
    return found;
}

}  // namespace weir::inline v0_2::agent::detail
