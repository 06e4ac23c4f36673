// Aim: one status for each kind of error, in OpenAI's shape, as valid UTF-8. Method: direct calls.
#include "server/errors.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace thimble::server {
namespace {

TEST(Errors, EachCodeHasItsStatus) {
  EXPECT_EQ(http_status(ErrorCode::kInvalidArgument), 400u);
  EXPECT_EQ(http_status(ErrorCode::kUnsupported), 400u);
  EXPECT_EQ(http_status(ErrorCode::kNotFound), 404u);
  EXPECT_EQ(http_status(ErrorCode::kResourceExhausted), 503u);
  EXPECT_EQ(http_status(ErrorCode::kCancelled), 499u);
  EXPECT_EQ(http_status(ErrorCode::kUnavailable), 503u);
  EXPECT_EQ(http_status(ErrorCode::kInternal), 500u);
  EXPECT_EQ(http_status(ErrorCode::kIo), 500u);
  EXPECT_EQ(http_status(ErrorCode::kCorrupt), 500u);
}

TEST(Errors, BusyMeansTryAgain) {
  for (const ApiError& error : {api_error({ErrorCode::kUnavailable, "full", {}}),
                                api_error({ErrorCode::kResourceExhausted, "full", {}}),
                                refusal_error({ErrorCode::kResourceExhausted, "full", {}})}) {
    const net::HttpResponse response = error_response(error);
    bool retry = false;
    for (const net::HttpHeader& header : response.headers) retry |= header.name == "Retry-After";
    EXPECT_TRUE(retry) << response.status;
  }
}

// A queue that is full and memory that is out are told apart.
TEST(Errors, SayWhatIsFull) {
  const Error full{ErrorCode::kResourceExhausted, "", {}};
  EXPECT_EQ(refusal_error(full).code, "queue_full");
  EXPECT_EQ(refusal_error(full).status, 429u);
  EXPECT_EQ(api_error(full).code, "out_of_memory");
  EXPECT_EQ(api_error(full).status, 503u);
  const Error busy{ErrorCode::kUnavailable, "", {}};
  EXPECT_EQ(refusal_error(busy).status, 503u);
  EXPECT_FALSE(refusal_error(busy).code.has_value());
}

TEST(Errors, KeepTheStepsOfTheLowerModule) {
  EXPECT_EQ(api_error({ErrorCode::kIo, "no", {"inner", "outer"}}).message, "outer: inner: no");
}

TEST(Errors, MalformedTextInAMessageIsReplaced) {
  const auto json = nlohmann::json::parse(error_json({400, "bad \xff byte", "p", {}, {}}));
  EXPECT_EQ(json["error"]["message"], "bad \xEF\xBF\xBD byte");
  EXPECT_EQ(json["error"]["param"], "p");
  EXPECT_TRUE(json["error"]["code"].is_null());
}

TEST(Errors, AnUnknownProtocolIsTheClientsMistake) {
  const auto type = [](uint32_t status) {
    const auto json = nlohmann::json::parse(error_json({status, "", {}, {}, {}}));
    return json["error"]["type"].get<std::string>();
  };
  EXPECT_EQ(type(505), "invalid_request_error");
  EXPECT_EQ(type(400), "invalid_request_error");
  EXPECT_EQ(type(500), "internal_error");
}

}  // namespace
}  // namespace thimble::server
