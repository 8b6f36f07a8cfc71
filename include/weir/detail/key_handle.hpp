#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace weir::detail {

/// Keys that are kept where the handle is.
template <class Key>
concept small_key =
    std::is_trivially_copyable_v<Key> && !std::is_array_v<Key> &&
    sizeof(Key) <= sizeof(std::uint64_t) && std::has_unique_object_representations_v<Key>;

/// The key of an entry in 8 bytes, which a permit can carry as a number. A small key is kept in there; any
/// other one lives on the heap, with its hash, and its handles are counted: by the table, by permits that
/// are out, and by whatever else knows the key. All calls are made under one lock.
template <class Key>
class key_handle {
    struct node {
        std::uint64_t hash;
        std::uint64_t references;
        Key key;
    };

public:
    /// For a key that is not known yet, with one reference. Throws what copying the key throws.
    template <class Like>
    [[nodiscard]] static key_handle make(Like const& like, std::uint64_t hash) {
        return key_handle(new node{hash, 1, Key(like)});
    }
    [[nodiscard]] static key_handle from(std::uint64_t word) noexcept {
        return key_handle(std::bit_cast<node*>(static_cast<std::uintptr_t>(word)));
    }

    [[nodiscard]] std::uint64_t word() const noexcept {
        return std::bit_cast<std::uintptr_t>(node_);
    }
    [[nodiscard]] Key const& key() const noexcept { return node_->key; }
    template <class Hash>
    [[nodiscard]] std::uint64_t hash(Hash const&) const noexcept {
        return node_->hash;
    }

    void retain() const noexcept { ++node_->references; }
    void release() const noexcept {
        if (--node_->references == 0)
            delete node_;
    }

private:
    explicit key_handle(node* n) noexcept : node_(n) {}
    node* node_;
};

/// Text is kept in one piece.
template <>
class key_handle<std::string> {
    struct node {
        std::uint64_t hash;
        std::uint32_t references;
        std::uint32_t size;
    };

public:
    [[nodiscard]] static key_handle make(std::string_view text, std::uint64_t hash) {
        if (text.size() > UINT32_MAX)
            throw std::bad_alloc();
        auto* const memory = static_cast<char*>(::operator new(sizeof(node) + text.size()));
        auto* const n = ::new (static_cast<void*>(memory))
            node{hash, 1, static_cast<std::uint32_t>(text.size())};
        text.copy(memory + sizeof(node), text.size());
        return key_handle(n);
    }
    [[nodiscard]] static key_handle from(std::uint64_t word) noexcept {
        return key_handle(std::bit_cast<node*>(static_cast<std::uintptr_t>(word)));
    }

    [[nodiscard]] std::uint64_t word() const noexcept {
        return std::bit_cast<std::uintptr_t>(node_);
    }
    [[nodiscard]] std::string_view key() const noexcept {
        return {reinterpret_cast<char const*>(node_ + 1), node_->size};
    }
    template <class Hash>
    [[nodiscard]] std::uint64_t hash(Hash const&) const noexcept {
        return node_->hash;
    }

    void retain() const noexcept { ++node_->references; }
    void release() const noexcept {
        if (--node_->references == 0)
            ::operator delete(node_);
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

}  // namespace weir::detail
