// Aim: OpenAI's own client library is served as it expects. Method: the npm package against the
// real binary with a random model; its words are noise, so shapes, counts and repeatability count.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import OpenAI from 'openai';
import { Server } from './thimble.mjs';

const messages = [{ role: 'user', content: 'Name two primes.' }];
let server;
let client;

before(async () => {
  server = await Server.start('--context', '4096');
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
});
after(async () => {
  assert.equal(await server.stop(), 0, server.log);
});

test('the model is listed and found by its name', async () => {
  const list = await client.models.list();
  assert.equal(list.data.length, 1);
  assert.equal(list.data[0].id, 'nano');
  assert.equal(list.data[0].thimble.random_weights, true);
  assert.equal((await client.models.retrieve('nano')).owned_by, 'thimble');
  await assert.rejects(client.models.retrieve('gpt-4o'), OpenAI.NotFoundError);
});

test('a chat answer has text, a reason and a usage that adds up', async () => {
  const answer = await client.chat.completions.create({
    model: 'any', messages, max_tokens: 40, seed: 1, reasoning_effort: 'none',
  });
  assert.equal(answer.object, 'chat.completion');
  assert.equal(answer.model, 'nano');
  const [choice] = answer.choices;
  assert.equal(choice.message.role, 'assistant');
  assert.equal(typeof choice.message.content, 'string');
  assert.match(choice.finish_reason, /^(stop|length)$/);
  const { usage } = answer;
  assert.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
  assert.equal(usage.completion_tokens_details.reasoning_tokens, 0);
  // The byte tokenizer: BOS, user, 16 bytes, assistant, </think>.
  assert.equal(usage.prompt_tokens, 20);
});

test('a stream says what the whole answer says, for the same seed', async () => {
  const request = { model: 'any', messages, max_tokens: 60, seed: 7, temperature: 0.8 };
  const whole = await client.chat.completions.create(request);
  const stream = await client.chat.completions.create({
    ...request, stream: true, stream_options: { include_usage: true },
  });
  let content = '';
  let reasoning = '';
  let usage = null;
  let reason = null;
  const ids = new Set();
  for await (const chunk of stream) {
    ids.add(`${chunk.id} ${chunk.created}`);
    usage = chunk.usage ?? usage;
    const choice = chunk.choices[0];
    content += choice?.delta.content ?? '';
    reasoning += choice?.delta.reasoning_content ?? '';
    reason = choice?.finish_reason ?? reason;
  }
  assert.equal(content, whole.choices[0].message.content);
  assert.equal(reasoning, whole.choices[0].message.reasoning_content);
  assert.equal(reason, whole.choices[0].finish_reason);
  assert.deepEqual(usage.completion_tokens_details, whole.usage.completion_tokens_details);
  assert.equal(usage.total_tokens, whole.usage.total_tokens);
  assert.equal(usage.prompt_cache_hit_tokens, usage.prompt_tokens - 1, 'the same prompt again');
  assert.equal(ids.size, 1);
});

test('a different seed says something else', async () => {
  const say = async (seed) => {
    const answer = await client.chat.completions.create({
      model: 'any', messages, max_tokens: 40, seed, reasoning_effort: 'none',
    });
    return answer.choices[0].message.content;
  };
  assert.notEqual(await say(1), await say(2));
});

test('an answer cut inside its reasoning says so', async () => {
  const answer = await client.chat.completions.create({
    model: 'any', messages, max_tokens: 5, seed: 3, ignore_eos: true,
  });
  const [choice] = answer.choices;
  assert.equal(choice.finish_reason, 'length');
  assert.equal(typeof choice.message.content, 'string');
  assert.equal(answer.usage.completion_tokens, 5);
  if (choice.message.content === '') {
    assert.equal(answer.usage.completion_tokens_details.reasoning_tokens, 5);
  }
});

test('log-probabilities are those of likely tokens, most likely first', async () => {
  const answer = await client.chat.completions.create({
    model: 'any', messages, max_tokens: 8, seed: 1, reasoning_effort: 'none', ignore_eos: true,
    logprobs: true, top_logprobs: 4,
  });
  const { content } = answer.choices[0].logprobs;
  assert.equal(content.length, 8);
  for (const entry of content) {
    assert.ok(entry.logprob <= 0);
    assert.ok(Array.isArray(entry.bytes));
    assert.equal(entry.top_logprobs.length, 4);
    const tops = entry.top_logprobs.map((top) => top.logprob);
    assert.deepEqual(tops, [...tops].sort((a, b) => b - a));
    assert.ok(entry.logprob <= tops[0] + 1e-6);
  }
});

test('greedy sampling takes the most likely token', async () => {
  const answer = await client.chat.completions.create({
    model: 'any', messages, max_tokens: 6, temperature: 0, reasoning_effort: 'none',
    ignore_eos: true, logprobs: true, top_logprobs: 2,
  });
  for (const entry of answer.choices[0].logprobs.content) {
    // The end of sentence is never sampled here, so the best may be the second of the two.
    assert.ok(entry.top_logprobs.some((top) => top.logprob === entry.logprob));
  }
});

test('plain completions take text and ids', async () => {
  const request = { model: 'any', max_tokens: 12, seed: 5 };
  const text = await client.completions.create({ ...request, prompt: 'Hello' });
  assert.equal(text.object, 'text_completion');
  assert.equal(text.usage.prompt_tokens, 6);
  const asked = await server.post('/tokenize', { content: 'Hello', add_special: true });
  const tokens = await asked.json();
  assert.equal(tokens.count, 6);
  const ids = await client.completions.create({ ...request, prompt: tokens.tokens });
  assert.equal(ids.choices[0].text, text.choices[0].text);
  let streamed = '';
  const stream = await client.completions.create({ ...request, prompt: 'Hello', stream: true });
  for await (const chunk of stream) streamed += chunk.choices[0].text;
  assert.equal(streamed, text.choices[0].text);
});

test('a stop string ends the answer before itself', async () => {
  const request = {
    model: 'any', messages, max_tokens: 60, seed: 9, reasoning_effort: 'none', ignore_eos: true,
  };
  const full = (await client.chat.completions.create(request)).choices[0].message.content;
  const stop = full.slice(10, 12);
  const cut = await client.chat.completions.create({ ...request, stop: [stop] });
  assert.equal(cut.choices[0].message.content, full.slice(0, full.indexOf(stop)));
  assert.equal(cut.choices[0].finish_reason, 'stop');
});

test('text survives the tokenizer', async () => {
  const content = 'naïve 東京 🙂 \u0000 <think>';
  const tokens = await (await server.post('/tokenize', { content, parse_special: false })).json();
  const back = await (await server.post('/detokenize', { tokens: tokens.tokens })).json();
  assert.equal(back.content, content);
});

test('errors are the classes the library knows', async () => {
  const ask = (fields) => client.chat.completions.create({ model: 'any', messages, ...fields });
  await assert.rejects(ask({ temperature: 3 }), (error) => {
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.equal(error.param, 'temperature');
    return true;
  });
  await assert.rejects(ask({ max_tokens: 1_000_000 }), (error) => {
    assert.equal(error.code, 'context_length_exceeded');
    assert.match(error.message, /4096/);
    return true;
  });
  await assert.rejects(ask({ functions: [{ name: 'f' }] }), (error) => {
    assert.equal(error.status, 400);
    assert.equal(error.param, 'functions');
    return true;
  });
  await assert.rejects(
    ask({
      messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'x' } }] }],
    }),
    /images are not supported yet/,
  );
});

test('tools are taken, and a demanded call has the name that was demanded', async () => {
  const tools = [
    {
      type: 'function',
      function: { name: 'get_tide', parameters: { type: 'object', properties: {} } },
    },
  ];
  const request = {
    model: 'any', messages, tools, max_tokens: 20, seed: 3,
    tool_choice: { type: 'function', function: { name: 'get_tide' } },
  };
  const whole = await client.chat.completions.create(request);
  const [call] = whole.choices[0].message.tool_calls;
  assert.equal(call.function.name, 'get_tide');
  assert.match(call.id, /^call_/);
  const stream = client.beta.chat.completions.stream(request);
  const streamed = (await stream.finalChatCompletion()).choices[0].message.tool_calls[0];
  assert.equal(streamed.function.name, 'get_tide');
  assert.equal(streamed.function.arguments, call.function.arguments);
  // Noise makes no calls, and what it says is shown without markup.
  const noise = await client.chat.completions.create({ ...request, tool_choice: 'auto' });
  assert.doesNotMatch(noise.choices[0].message.content ?? '', /DSML/);
  const history = [
    ...messages,
    { role: 'assistant', content: null, tool_calls: [{ ...call, id: 'a' }] },
    { role: 'tool', tool_call_id: 'a', content: 'high at noon' },
  ];
  const next = await client.chat.completions.create({
    ...request, messages: history, tool_choice: 'auto',
  });
  assert.ok(next.usage.prompt_tokens > whole.usage.prompt_tokens);
});

test('demanded calls have the arguments of their schemas, streamed or not', async () => {
  const parameters = {
    type: 'object',
    properties: {
      port: { type: 'string', maxLength: 6 },
      nights: { type: 'integer', minimum: 1, maximum: 30 },
      room: { enum: ['single', 'double', null] },
      pets: { type: 'boolean' },
    },
    required: ['port', 'nights', 'room'],
  };
  const request = {
    model: 'any', messages, max_tokens: 900, n: 3, seed: 4, tool_choice: 'required',
    parallel_tool_calls: false,
    tools: [
      { type: 'function', function: { name: 'book', parameters } },
      { type: 'function', function: { name: 'leave' } },
    ],
  };
  const fits = ({ name, arguments: text }) => {
    const value = JSON.parse(text);
    if (name === 'leave') return assert.deepEqual(value, {});
    assert.equal(name, 'book');
    assert.deepEqual(Object.keys(value).slice(0, 3), ['port', 'nights', 'room']);
    assert.ok([...value.port].length <= 6);
    assert.ok(Number.isInteger(value.nights) && value.nights >= 1 && value.nights <= 30);
    return assert.ok(parameters.properties.room.enum.includes(value.room));
  };
  const whole = await client.chat.completions.create(request);
  for (const { message, finish_reason: reason } of whole.choices) {
    assert.equal(reason, 'tool_calls');
    assert.equal(message.tool_calls.length, 1);
    fits(message.tool_calls[0].function);
  }
  const named = {
    ...request, n: 1, tool_choice: { type: 'function', function: { name: 'book' } },
  };
  const stream = client.beta.chat.completions.stream(named);
  const [call] = (await stream.finalChatCompletion()).choices[0].message.tool_calls;
  assert.equal(call.function.name, 'book');
  fits(call.function);
  parameters.properties.port.pattern = '^B';
  await assert.rejects(client.chat.completions.create(request), (error) => {
    assert.equal(error.code, 'not_supported');
    assert.equal(error.param, 'tools[0].function.parameters');
    assert.match(error.message, /#\/properties\/port: 'pattern' is not supported/);
    return true;
  });
});

test('an answer of a form is JSON that fits, streamed or not', async () => {
  const schema = {
    type: 'object',
    properties: {
      name: { type: 'string', maxLength: 6 },
      age: { type: 'integer', minimum: 0, maximum: 150 },
      tags: { type: 'array', items: { enum: ['red', 'green'] }, maxItems: 3 },
    },
    required: ['name', 'age', 'tags'],
    additionalProperties: false,
  };
  const request = {
    model: 'any', messages, max_tokens: 600, seed: 5, reasoning_effort: 'none', n: 4,
    response_format: { type: 'json_schema', json_schema: { name: 'record', strict: true, schema } },
  };
  const whole = await client.chat.completions.create(request);
  for (const { message, finish_reason: reason } of whole.choices) {
    assert.equal(reason, 'stop');
    const value = JSON.parse(message.content);
    assert.deepEqual(Object.keys(value), ['name', 'age', 'tags']);
    assert.ok([...value.name].length <= 6);
    assert.ok(Number.isInteger(value.age) && value.age >= 0 && value.age <= 150);
    assert.ok(value.tags.length <= 3 && value.tags.every((tag) => /^(red|green)$/.test(tag)));
  }
  const again = await client.chat.completions.create({ ...request, n: 1 });
  assert.equal(again.choices[0].message.content, whole.choices[0].message.content);
  const stream = client.beta.chat.completions.stream({ ...request, n: 1 });
  const final = (await stream.finalChatCompletion()).choices[0];
  assert.equal(final.message.content, whole.choices[0].message.content);
  await assert.rejects(
    client.chat.completions.create({
      ...request,
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'x', schema: { type: 'string', format: 'email' } },
      },
    }),
    (error) => {
      assert.ok(error instanceof OpenAI.BadRequestError);
      assert.equal(error.code, 'not_supported');
      assert.match(error.message, /#: 'format' is not supported/);
      return true;
    },
  );
  const object = await client.chat.completions.create({
    model: 'any', messages: [{ role: 'user', content: 'Any JSON.' }], max_tokens: 3000, seed: 2,
    reasoning_effort: 'none', response_format: { type: 'json_object' },
  });
  const [choice] = object.choices;
  assert.match(choice.message.content, /^\{/);
  if (choice.finish_reason === 'stop') {
    assert.equal(typeof JSON.parse(choice.message.content), 'object');
  }
});

test('several choices are repeatable, and the first is what it is alone', async () => {
  const request = { model: 'any', messages, max_tokens: 12, seed: 9, reasoning_effort: 'none' };
  const alone = await client.chat.completions.create(request);
  const first = await client.chat.completions.create({ ...request, n: 3 });
  const again = await client.chat.completions.create({ ...request, n: 3 });
  const texts = (answer) => answer.choices.map((choice) => choice.message.content);
  assert.deepEqual(first.choices.map((choice) => choice.index), [0, 1, 2]);
  assert.deepEqual(texts(first), texts(again));
  assert.equal(texts(first)[0], texts(alone)[0]);
  assert.notEqual(texts(first)[1], texts(first)[2]);
  assert.equal(first.usage.prompt_tokens, alone.usage.prompt_tokens);
});

test('an aborted stream frees the place', async () => {
  const stream = await client.chat.completions.create({
    model: 'any', messages, max_tokens: 3900, ignore_eos: true, stream: true,
  });
  let chunks = 0;
  for await (const chunk of stream) {
    assert.ok(chunk.choices);
    if (++chunks === 5) stream.controller.abort();
  }
  assert.ok(await server.becomesIdle(), 'still running after the client left');
});

test('an aborted whole answer frees the place too', async () => {
  const controller = new AbortController();
  const asked = client.chat.completions.create(
    { model: 'any', messages, max_tokens: 3900, ignore_eos: true },
    { signal: controller.signal },
  );
  setTimeout(() => controller.abort(), 200);
  await assert.rejects(asked, OpenAI.APIUserAbortError);
  assert.ok(await server.becomesIdle(), 'still running after the client left');
});

test('health answers a hundred times while an answer is made', async () => {
  const controller = new AbortController();
  const stream = await server.post('/v1/completions', {
    prompt: 'x', max_tokens: 3900, ignore_eos: true, stream: true,
  }, { signal: controller.signal });
  const reader = stream.body.getReader();
  await reader.read();
  const answers = await Promise.all(Array.from({ length: 100 }, () => server.health()));
  assert.ok(answers.every((answer) => answer.status === 'ok'));
  controller.abort();
  assert.ok(await server.becomesIdle());
});
