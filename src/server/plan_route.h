// GET /v1/plan: the capacity plan as JSON, its charts along with it when asked for.
//
// The query's fields are those of planner/plan_request.h; besides them `config` names the model
// (`serving`, the default: the one behind this server; `released`; a generation before it) and
// `charts=1` adds the pictures. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "net/http.h"
#include "planner/plan.h"
#include "server/errors.h"

namespace thimble::server {

// What `serving` stands for, and the machine it runs on.
struct PlannedModel {
  std::string name;
  std::optional<planner::PlanSubject> subject;  // empty: there is only the released model
};

// REQUIRES: `query` as HttpRequest::query has it.
ApiResult<std::string> plan_json(const PlannedModel& model, std::string_view query);

}  // namespace thimble::server
