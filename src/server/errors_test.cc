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
  EXPECT_EQ(http_status(ErrorCode::kResourceExhausted), 429u);
  EXPECT_EQ(http_status(ErrorCode::kCancelled), 499u);
  EXPECT_EQ(http_status(ErrorCode::kUnavailable), 503u);
  EXPECT_EQ(http_status(ErrorCode::kInternal), 500u);
  EXPECT_EQ(http_status(ErrorCode::kIo), 500u);
  EXPECT_EQ(http_status(ErrorCode::kCorrupt), 500u);
}

TEST(Errors, BusyMeansTryAgain) {
  for (const ErrorCode code : {ErrorCode::kResourceExhausted, ErrorCode::kUnavailable}) {
    const net::HttpResponse response = error_response(api_error({code, "full", {}}));
    bool retry = false;
    for (const net::HttpHeader& header : response.headers) retry |= header.name == "Retry-After";
    EXPECT_TRUE(retry) << response.status;
  }
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
