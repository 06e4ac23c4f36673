// A conversation as the request that the API expects.
import { effortField } from './effort.js';
import { isEmpty } from './tree.js';

// answered: ids of calls that have a result. The others are left out: the API wants one for each.
function message(turn, answered) {
  if (turn.role === 'tool') {
    return { role: 'tool', tool_call_id: turn.call, content: turn.content };
  }
  const out = { role: turn.role, content: turn.content };
  if (turn.reasoning) out.reasoning_content = turn.reasoning;
  const calls = (turn.calls ?? []).filter((call) => answered.has(call.id));
  if (calls.length) {
    out.tool_calls = calls.map(({ id, name, arguments: text }) =>
      ({ id, type: 'function', function: { name, arguments: text } }));
  }
  return out;
}

function addTools(body, settings, tools) {
  if (!tools.length) return;
  body.tools = tools;
  if (settings.toolChoice !== 'auto') body.tool_choice = settings.toolChoice;
  if (settings.toolChoice !== 'required') return;
  // A demanded call goes with reasoning off, and the server says so where both are asked for.
  delete body.reasoning_effort;
  if (tools.length > 1) return;
  // Of one tool even the name is settled.
  body.tool_choice = { type: 'function', function: { name: tools[0].function.name } };
}

// server: {id, chat}. Returns [path, body].
export function makeRequest(server, settings, tools, turns) {
  const body = {
    model: server.id,
    stream: true,
    stream_options: { include_usage: true },
    temperature: Number(settings.temperature),
  };
  if (Number(settings.maxTokens) >= 1) body.max_tokens = Math.floor(Number(settings.maxTokens));
  const said = turns.filter((turn) => turn.role !== 'assistant' || !isEmpty(turn));
  if (!server.chat) {
    body.prompt = said.map((turn) => turn.content).join('');
    return ['/v1/completions', body];
  }
  const effort = effortField(settings.effort);
  if (effort !== undefined) body.reasoning_effort = effort;
  const answered = new Set(turns.map((turn) => turn.call));
  body.messages = said.map((turn) => message(turn, answered));
  if (settings.system.trim()) {
    body.messages.unshift({ role: 'system', content: settings.system.trim() });
  }
  addTools(body, settings, tools);
  return ['/v1/chat/completions', body];
}
