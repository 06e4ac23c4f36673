// Aim: events arrive as the text that was sent. Method: the frames of the standard's own examples.
#include "net/sse.h"

#include <gtest/gtest.h>

namespace thimble::net {
namespace {

TEST(Sse, FramesOneEvent) {
  EXPECT_EQ(sse_event(R"({"a":1})"), "data: {\"a\":1}\n\n");
  EXPECT_EQ(sse_event(""), "data: \n\n");
}

TEST(Sse, EveryLineBreakStartsADataLine) {
  EXPECT_EQ(sse_event("a\nb"), "data: a\ndata: b\n\n");
  EXPECT_EQ(sse_event("a\r\nb\rc\n"), "data: a\ndata: b\ndata: c\ndata: \n\n");
}

TEST(Sse, ANameComesBeforeTheData) {
  EXPECT_EQ(sse_event("a.b", "x\ny"), "event: a.b\ndata: x\ndata: y\n\n");
}

TEST(Sse, CommentsAreNoEvents) { EXPECT_EQ(sse_comment("keep-alive"), ": keep-alive\n\n"); }

}  // namespace
}  // namespace thimble::net
