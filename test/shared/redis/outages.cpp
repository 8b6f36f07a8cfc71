#include <weir/redis/store.hpp>

#include "shared/redis/place.hpp"

#include <boost/asio/io_context.hpp>

#include <memory>
#include <string>
#include <utility>

// With the default time limits.
struct place : support::redis_place {
    static std::shared_ptr<weir::redis::store> at(boost::asio::io_context& where,
                                                  std::string address) {
        weir::redis::options const options{.url = std::move(address)};
        return std::make_shared<weir::redis::store>(where, options);
    }
};

#include "shared/outage_tests.hpp"
