// Aim: OpenAI's own client library is served by /v1/responses as it expects. Method: the npm
// package against the real binary with a random model; its words are noise, so shapes, counts, the
// order of events and repeatability count. `seed`, `stop` and `ignore_eos` are fields of ours.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import OpenAI from 'openai';
import { killLeftovers, Server } from './thimble.mjs';

const input = 'Name two primes.';
const request = { model: 'any', input, max_output_tokens: 40, seed: 1 };
const silent = { ...request, reasoning: { effort: 'none' }, ignore_eos: true };
const tools = [{
  type: 'function', name: 'get_tide', description: 'Tide of the day', strict: false,
  parameters: { type: 'object', properties: { place: { type: 'string' } } },
}];
let server;
let client;

before(async () => {
  server = await Server.start('--context', '4096');
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
});
after(async () => {
  assert.equal(await server.stop(), 0, server.log);
  killLeftovers();
});

// What is the same of two answers to the same request: all but names.
function contents(response) {
  return response.output.map(({ id, call_id, ...item }) => item);
}

test('a response has text, a status and a usage that adds up', async () => {
  const response = await client.responses.create({ ...silent, metadata: { a: 'b' } });
  assert.equal(response.object, 'response');
  assert.equal(response.model, 'nano');
  assert.match(response.id, /^resp_/);
  assert.equal(response.status, 'incomplete');
  assert.deepEqual(response.incomplete_details, { reason: 'max_output_tokens' });
  assert.deepEqual(response.metadata, { a: 'b' });
  assert.equal(response.output_text, response.output[0].content[0].text);
  const { usage } = response;
  assert.equal(usage.total_tokens, usage.input_tokens + usage.output_tokens);
  assert.equal(usage.output_tokens, 40);
  assert.equal(usage.output_tokens_details.reasoning_tokens, 0);
  // The byte tokenizer: BOS, user, 16 bytes, assistant, </think>.
  assert.equal(usage.input_tokens, 20);
});

test('a stop string completes it, and the library puts a stream together', async () => {
  const full = (await client.responses.create(silent)).output_text;
  const stop = [full.slice(10, 12)];
  const whole = await client.responses.create({ ...silent, stop });
  assert.equal(whole.status, 'completed');
  assert.equal(whole.output_text, full.slice(0, full.indexOf(stop[0])));
  const deltas = [];
  const stream = client.responses.stream({ ...silent, stop })
    .on('response.output_text.delta', (event) => {
      deltas.push(event.delta);
      assert.equal(event.snapshot, deltas.join(''));
    });
  const final = await stream.finalResponse();
  assert.equal(final.status, 'completed');
  assert.deepEqual(contents(whole), final.output.map(({ id, content, ...item }) => (
    { ...item, content: content.map(({ parsed, ...part }) => part) })));
  assert.equal(deltas.join(''), whole.output_text);
  assert.deepEqual(final.usage.output_tokens, whole.usage.output_tokens);
});

test('events come in order, and make up what the whole response says', async () => {
  const whole = await client.responses.create(request);
  const stream = await client.responses.create({ ...request, stream: true });
  const items = [];
  let last = null;
  let count = 0;
  for await (const event of stream) {
    assert.equal(event.sequence_number, count++);
    if (count === 1) assert.equal(event.type, 'response.created');
    if (count === 2) assert.equal(event.type, 'response.in_progress');
    if (event.type === 'response.output_item.added') {
      assert.equal(event.output_index, items.length);
      items.push('');
    } else if (event.type.endsWith('.delta')) {
      assert.equal(event.output_index, items.length - 1);
      items[event.output_index] += event.delta;
    }
    last = event;
  }
  assert.equal(last.type, `response.${whole.status}`);
  assert.deepEqual(contents(last.response), contents(whole));
  assert.deepEqual(items, whole.output.map((item) => item.content[0].text));
  assert.equal(last.response.usage.total_tokens, whole.usage.total_tokens);
  assert.equal(last.response.usage.input_tokens_details.cached_tokens,
    last.response.usage.input_tokens - 1, 'the same prompt again');
});

test('reasoning is an item of its own', async () => {
  const response = await client.responses.create({
    ...request, max_output_tokens: 5, ignore_eos: true, reasoning: { effort: 'low' },
  });
  const [item] = response.output;
  if (response.usage.output_tokens_details.reasoning_tokens === 5) {
    assert.equal(item.type, 'reasoning');
    assert.equal(item.content[0].type, 'reasoning_text');
    assert.equal(response.output_text, '');
  }
  assert.equal(response.reasoning.effort, 'low');
  assert.equal(response.usage.output_tokens, 5);
  // The effort stands in the prompt: 50, and 100.
  const most = await client.responses.create({
    ...request, max_output_tokens: 1, reasoning: { effort: 'max' },
  });
  assert.equal(most.usage.input_tokens, response.usage.input_tokens + 1);
});

test('a demanded call is an item, and its result is taken', async () => {
  const wanted = { ...request, tools, tool_choice: { type: 'function', name: 'get_tide' } };
  const whole = await client.responses.create(wanted);
  const [call] = whole.output;
  assert.equal(call.type, 'function_call');
  assert.equal(call.name, 'get_tide');
  assert.match(call.call_id, /^call_/);
  let streamed = '';
  let item = null;
  for await (const event of await client.responses.create({ ...wanted, stream: true })) {
    if (event.type === 'response.function_call_arguments.delta') streamed += event.delta;
    if (event.type === 'response.output_item.done') item = event.item;
  }
  assert.equal(streamed, call.arguments);
  assert.equal(item.arguments, call.arguments);
  const next = await client.responses.create({
    ...request, tools, tool_choice: 'auto',
    input: [
      { role: 'user', content: input },
      ...whole.output,
      { type: 'function_call_output', call_id: call.call_id, output: 'high at noon' },
    ],
  });
  assert.ok(next.usage.input_tokens > whole.usage.input_tokens);
});

test('a conversation goes on with the items it had', async () => {
  const items = [{ role: 'user', content: input }];
  const kind = { ...silent, input: items, instructions: 'Be kind.' };
  const first = await client.responses.create(kind);
  items.push(...first.output, { role: 'user', content: 'And two more?' });
  const second = await client.responses.create(kind);
  assert.ok(second.usage.input_tokens > first.usage.input_tokens + 13);
  assert.ok(second.usage.input_tokens_details.cached_tokens >= first.usage.input_tokens,
    JSON.stringify(second.usage));
});

test('errors are the classes the library knows', async () => {
  const refused = async (fields, param) => {
    await assert.rejects(client.responses.create({ ...request, ...fields }), (error) => {
      assert.ok(error instanceof OpenAI.BadRequestError, String(error));
      assert.equal(error.param, param);
      return true;
    });
  };
  await refused({ previous_response_id: 'resp_1' }, 'previous_response_id');
  await refused({ tools: [{ type: 'web_search_preview' }] }, 'tools[0].type');
  await refused({ max_output_tokens: 1_000_000 }, 'max_output_tokens');
  await refused({ input: [{ role: 'user', content: [{ type: 'input_image' }] }] },
    'input[0].content[0]');
  await refused({ stream: true, temperature: 3 }, 'temperature');
  await assert.rejects(client.responses.retrieve('resp_1'), OpenAI.NotFoundError);
});

test('an aborted stream frees the place', async () => {
  const stream = await client.responses.create({
    ...silent, max_output_tokens: 3900, stream: true,
  });
  let events = 0;
  for await (const event of stream) {
    assert.ok(event.type);
    if (++events === 8) stream.controller.abort();
  }
  assert.ok(await server.becomesIdle(), 'still running after the client left');
});
