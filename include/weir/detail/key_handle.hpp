#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace weir::inline v0_2::detail {

/// Keys that are stored inside the handle.
template <class Key>
concept small_key =
    std::is_trivially_copyable_v<Key> && !std::is_array_v<Key> &&
    sizeof(Key) <= sizeof(std::uint64_t) && std::has_unique_object_representations_v<Key>;

/// A key on the heap, with its hash and the number of its handles.
template <class Key>
struct key_node {
    template <class Like>
    [[nodiscard]] static key_node* make(Like const& like, std::uint64_t hash) {
        return new key_node{hash, 1, Key(like)};
    }
    void destroy() noexcept { delete this; }
    [[nodiscard]] Key const& key() const noexcept { return value; }

    std::uint64_t hash;
    std::uint64_t references;
    Key value;
};

/// Text is stored in the same allocation.
template <>
struct key_node<std::string> {
    [[nodiscard]] static key_node* make(std::string_view text, std::uint64_t hash) {
        if (text.size() > UINT32_MAX)
            throw std::bad_alloc();
        void* const memory = ::operator new(sizeof(key_node) + text.size());
        auto* const made =
            ::new (memory) key_node{hash, 1, static_cast<std::uint32_t>(text.size())};
        text.copy(reinterpret_cast<char*>(made + 1), text.size());
        return made;
    }
    void destroy() noexcept { ::operator delete(this); }
    [[nodiscard]] std::string_view key() const noexcept {
        return {reinterpret_cast<char const*>(this + 1), size};
    }

    std::uint64_t hash;
    std::uint32_t references;
    std::uint32_t size;
};

/// The key of an entry in 8 bytes, which a permit can carry as a number. A small key is stored in the handle. Any
/// other key is on the heap, with its hash, and its handles are counted: the handles of the table, of permits in use,
/// and of any other object that knows the key. All calls are made under one lock.
template <class Key>
class key_handle {
    using node = key_node<Key>;

public:
    /// Makes the first reference to a key that is not known yet. Throws the exceptions of copying the key.
    template <class Like>
    [[nodiscard]] static key_handle make(Like const& like, std::uint64_t hash) {
        return key_handle(node::make(like, hash));
    }
    [[nodiscard]] static key_handle from(std::uint64_t word) noexcept {
        return key_handle(std::bit_cast<node*>(static_cast<std::uintptr_t>(word)));
    }

    [[nodiscard]] std::uint64_t word() const noexcept {
        return std::bit_cast<std::uintptr_t>(node_);
    }
    [[nodiscard]] decltype(auto) key() const noexcept { return node_->key(); }
    template <class Hash>
    [[nodiscard]] std::uint64_t hash(Hash const&) const noexcept {
        return node_->hash;
    }

    void retain() const noexcept { ++node_->references; }
    void release() const noexcept {
        if (--node_->references == 0)
            node_->destroy();
    }

private:
    explicit key_handle(node* n) noexcept : node_(n) {}
    node* node_;
};

template <small_key Key>
class key_handle<Key> {
public:
    template <class Like>
    [[nodiscard]] static key_handle make(Like const& like, std::uint64_t) {
        return key_handle(Key(like));
    }
    [[nodiscard]] static key_handle from(std::uint64_t word) noexcept {
        Key key;
        std::memcpy(&key, &word, sizeof(Key));
        return key_handle(key);
    }

    [[nodiscard]] std::uint64_t word() const noexcept {
        std::uint64_t word = 0;
        std::memcpy(&word, &key_, sizeof(Key));
        return word;
    }
    [[nodiscard]] Key const& key() const noexcept { return key_; }
    template <class Hash>
    [[nodiscard]] std::uint64_t hash(Hash const& hash_of) const noexcept {
        return hash_of(key_);
    }

    void retain() const noexcept {}
    void release() const noexcept {}

private:
    explicit key_handle(Key key) noexcept : key_(key) {}
    Key key_;
};

}  // namespace weir::inline v0_2::detail
