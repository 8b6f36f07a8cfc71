#include "state_file.hpp"

#include "key.hpp"
#include "tool/trouble.hpp"

#include <boost/asio/post.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <iterator>
#include <set>
#include <stdexcept>
#include <system_error>

namespace proxy {
namespace {

constexpr std::string_view seed_name = "key seed";

[[noreturn]] void fail(char const* what) {
    throw std::system_error(errno, std::generic_category(), what);
}

// A directory or a device at `path` belongs to others, so it must be neither renamed nor replaced.
void check_kind(std::string const& path) {
    std::error_code ignored;
    auto const status = std::filesystem::status(path, ignored);
    if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
        throw std::runtime_error("it is not a regular file");
}

class open_file {
public:
    open_file(std::string const& path, int flags, mode_t mode = 0)
        : number_(::open(path.c_str(), flags | O_CLOEXEC, mode)) {
        if (number_ < 0)
            fail("cannot open it");
    }
    open_file(open_file const&) = delete;
    ~open_file() { ::close(number_); }

    void write(std::string_view bytes) const {
        while (!bytes.empty()) {
            auto const n = ::write(number_, bytes.data(), bytes.size());
            if (n < 0 && errno != EINTR)
                fail("cannot write it");
            bytes.remove_prefix(n < 0 ? 0 : static_cast<std::size_t>(n));
        }
    }
    [[nodiscard]] bool is_at(std::string const& path) const noexcept {
        struct stat mine{};
        struct stat there{};
        return ::fstat(number_, &mine) == 0 && ::stat(path.c_str(), &there) == 0 &&
               mine.st_dev == there.st_dev && mine.st_ino == there.st_ino;
    }
    void flush() const {
        if (::fsync(number_) != 0)
            fail("cannot flush it to the disk");
    }
    [[nodiscard]] std::string read() const {
        struct stat s{};
        if (::fstat(number_, &s) != 0)
            fail("cannot read it");
        std::string bytes(static_cast<std::size_t>(s.st_size), '\0');
        for (std::size_t at = 0; at != bytes.size();) {
            auto const n = ::read(number_, bytes.data() + at, bytes.size() - at);
            if (n < 0 && errno != EINTR)
                fail("cannot read it");
            if (n == 0)
                bytes.resize(at);
            at += n < 0 ? 0 : static_cast<std::size_t>(n);
        }
        return bytes;
    }

private:
    int number_;
};

// The name of the limit in the name of a state.
std::string_view limit_of(std::string_view name) {
    return name.substr(0, name.find('\n'));
}

// The states of all limits of a plan.
std::vector<limiting::saved_part> parts_of(plan const& p) {
    std::vector<limiting::saved_part> parts;
    for (auto const& l : p.limits)
        std::ranges::move(l->saved_parts(), std::back_inserter(parts));
    return parts;
}

std::string text_of(weir::hash_seed const& seed) {
    std::string text(sizeof seed, '\0');
    std::memcpy(text.data(), &seed, sizeof seed);
    return text;
}

// A file beside the old one, which replaces it when it is complete.
class next_file {
public:
    explicit next_file(std::string const& path)
        : path_(path + ".new"),
          file_((::unlink(path_.c_str()), path_), O_WRONLY | O_CREAT | O_EXCL, 0600) {}
    ~next_file() {
        if (!path_.empty())
            ::unlink(path_.c_str());
    }
    [[nodiscard]] open_file const& file() const noexcept { return file_; }
    void replace(std::string const& path) {
        file_.flush();
        if (!file_.is_at(path_)) {
            path_.clear();
            throw std::runtime_error("another process writes it");
        }
        if (::rename(path_.c_str(), path.c_str()) != 0)
            fail("cannot rename it");
        path_.clear();
        auto const folder = std::filesystem::path(path).parent_path();
        open_file(folder.empty() ? "." : folder.string(), O_RDONLY | O_DIRECTORY).flush();
    }

private:
    std::string path_;
    open_file file_;
};

void write(std::string const& path, std::vector<limiting::saved_part> const& parts) {
    next_file next(path);
    weir::state_writer to([&](std::string_view bytes) { next.file().write(bytes); });
    to.note(seed_name, text_of(key_seed()));
    for (auto const& part : parts)
        part.save(to, part.name);
    to.finish();
    next.replace(path);
}

}  // namespace

state_file::state_file(asio::io_context& context, config::state_options const& c)
    : options_(c), timer_(context) {
    if (options_.file.empty())
        return;
    try {
        check_kind(options_.file);
        next_file const trial(options_.file);
    } catch (std::exception const& e) {
        throw std::runtime_error(
            fmt::format("cannot write the state file `{}`: {}", options_.file, tool::reason_of(e)));
    }
    read();
}

void state_file::read() {
    try {
        if (::access(options_.file.c_str(), F_OK) != 0 && errno == ENOENT)
            return;
        state_.emplace(open_file(options_.file, O_RDONLY | O_NONBLOCK).read());
        weir::hash_seed seed;
        auto const saved = state_->note(seed_name).value_or("");
        if (saved.size() != sizeof seed)
            return;
        std::memcpy(&seed, saved.data(), sizeof seed);
        set_key_seed(seed);
    } catch (std::exception const& e) {
        state_.reset();
        refuse(tool::reason_of(e));
    }
}

void state_file::refuse(std::string_view reason) {
    auto const kept = options_.file + ".refused";
    bool const is_kept = ::rename(options_.file.c_str(), kept.c_str()) == 0;
    tool::say(tool::level::error,
              fmt::format("weir-proxy: state file `{}`: {}; all limits start with nothing used{}\n",
                          options_.file, reason,
                          is_kept ? fmt::format("; the file is now `{}`", kept) : ""));
}

void state_file::restore(plan const& p) {
    if (!state_)
        return;
    auto const warn = [&](std::string_view limit, std::string_view what) {
        tool::say(tool::level::warning,
                  fmt::format("weir-proxy: state of limit `{}`: {}\n", limit, what));
    };
    auto const names = state_->names();
    std::set<std::string_view> unknown(names.begin(), names.end());
    std::set<std::string_view> known_limits;
    std::uint64_t keys = 0;
    std::size_t limits = 0;
    for (auto const& l : p.limits)
        known_limits.insert(l->name());
    for (auto const& part : parts_of(p)) {
        if (unknown.erase(part.name) == 0)
            continue;
        auto const result = part.restore(*state_, part.name);
        keys += result.keys;
        limits += result.is_restored;
        if (!result.is_restored)
            warn(limit_of(part.name),
                 fmt::format("{}; it starts with nothing used", result.reason));
        else if (result.dropped != 0)
            warn(limit_of(part.name),
                 fmt::format("{} keys start with nothing used: {}", result.dropped, result.reason));
    }
    std::set<std::string_view> dropped;
    for (auto const name : unknown) {
        auto const limit = limit_of(name);
        if (known_limits.contains(limit))
            warn(limit,
                 "its key or an override is another one; these clients start with nothing used");
        else
            dropped.insert(limit);
    }
    if (!dropped.empty())
        tool::say(tool::level::warning,
                  fmt::format("weir-proxy: state file `{}`: no limit has the name `{}`\n",
                              options_.file, fmt::join(dropped, "`, `")));
    tool::say(tool::level::info,
              fmt::format("weir-proxy: state file `{}`: {} limits and {} keys continue\n",
                          options_.file, limits, keys));
    state_.reset();
}

void state_file::start(std::shared_ptr<plan const> const& in_force) {
    if (options_.file.empty())
        return;
    in_force_ = &in_force;
    wait();
}

void state_file::wait() {
    timer_.expires_after(options_.every);
    timer_.async_wait([this](net::error_code ec) {
        if (ec)
            return;
        if (is_done_)
            write_in_background();
        wait();
    });
}

void state_file::write_in_background() {
    end_writing();
    try {
        writing_ = *in_force_;
        parts_ = parts_of(*writing_);
        is_done_ = false;
        writer_ = std::thread([this] {
            write_all(parts_);
            is_done_ = true;
            try {
                asio::post(timer_.get_executor(), [this] {
                    if (is_done_)  // the next writing has not begun
                        end_writing();
                });
            } catch (std::exception const&) {}  // the next writing ends this one
        });
    } catch (std::exception const& e) {
        is_done_ = true;
        report(tool::reason_of(e));
    }
}

// The last owner of an earlier plan must not be the other thread.
void state_file::end_writing() {
    join();
    parts_.clear();
    writing_.reset();
}

void state_file::write_all(std::vector<limiting::saved_part> const& parts) {
    try {
        write(options_.file, parts);
        report({});
    } catch (std::exception const& e) {
        report(tool::reason_of(e));
    }
}

void state_file::join() {
    if (writer_.joinable())
        writer_.join();
}

// Reports a failure once, until a writing succeeds or fails for another reason. Only one thread writes at a time.
void state_file::report(std::string const& failure) {
    if (!failure.empty() && failure != failure_)
        tool::say(tool::level::error,
                  fmt::format("weir-proxy: cannot write the state file `{}`: {}\n", options_.file,
                              failure));
    failure_ = failure;
}

void state_file::finish(std::shared_ptr<plan const> const& p) {
    if (options_.file.empty())
        return;
    end_writing();
    failure_.clear();  // it is the last message
    write_all(parts_of(*p));
}

}  // namespace proxy
