// Aim: what clients see of the process: the raw stream, flags, stopping. Method: fetch against the
// real binary with a random model.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { get } from 'node:http';
import { afterEach, test } from 'node:test';
import OpenAI from 'openai';
import { killLeftovers, modelDir, Server } from './thimble.mjs';

const chat = { messages: [{ role: 'user', content: 'Hi' }], max_tokens: 30, ignore_eos: true };

afterEach(killLeftovers);

// The rules a client may lean on, event by event.
function checkStream(text, { usage }) {
  assert.ok(text.endsWith('data: [DONE]\n\n'));
  const events = text.split('\n\n').filter((part) => part.startsWith('data: '))
    .map((part) => part.slice(6));
  assert.equal(events.pop(), '[DONE]');
  const chunks = events.map((event) => JSON.parse(event));
  if (usage) {
    const last = chunks.pop();
    assert.deepEqual(last.choices, []);
    assert.ok(last.usage.total_tokens > 0);
  }
  chunks.forEach((chunk, index) => {
    assert.equal(chunk.object, 'chat.completion.chunk');
    assert.equal(chunk.id, chunks[0].id);
    assert.equal(chunk.created, chunks[0].created);
    assert.equal(chunk.choices.length, 1);
    const { delta, finish_reason: reason } = chunk.choices[0];
    assert.equal(typeof delta, 'object');
    assert.equal('role' in delta, index === 0);
    assert.equal(reason !== null, index === chunks.length - 1);
    assert.equal(chunk.usage ?? null, null);
    if (index > 0 && reason === null) {
      assert.ok((delta.content ?? '') + (delta.reasoning_content ?? '') !== '', 'an empty delta');
    }
  });
}

test('the raw stream keeps the rules', async () => {
  const server = await Server.start();
  for (const usage of [false, true]) {
    const options = usage ? { stream_options: { include_usage: true } } : {};
    const response = await server.post('/v1/chat/completions',
      { ...chat, stream: true, ...options });
    assert.equal(response.headers.get('content-type'), 'text/event-stream');
    checkStream(await response.text(), { usage });
  }
  assert.equal(await server.stop(), 0);
  const lines = server.log.split('\n').filter((line) => line.includes(' request '));
  assert.equal(lines.length, 2, 'one log line a request');
  assert.match(lines[0], /status=200 outcome=length prompt_tokens=\d+ completion_tokens=30/);
  assert.ok(!server.log.includes('Hi'), 'what people write is not logged');
  assert.match(server.log, /noise/, 'a random model is announced');
});

test('keys, strict names and defaults are honoured', async () => {
  const server = await Server.start('--api-key', 'sesame', '--strict-model', '--reasoning', 'off',
    '--max-tokens-default', '3');
  const client = (apiKey) =>
    new OpenAI({ baseURL: `${server.url}/v1`, apiKey, maxRetries: 0 });
  await assert.rejects(client('wrong').models.list(), OpenAI.AuthenticationError);
  const create = (model) => client('sesame').chat.completions.create({
    model, messages: chat.messages, ignore_eos: true,
  });
  await assert.rejects(create('gpt-4o'), OpenAI.NotFoundError);
  const answer = await create('nano');
  assert.equal(answer.usage.completion_tokens, 3);
  assert.equal(answer.choices[0].message.reasoning_content, undefined);
  assert.equal((await server.health()).status, 'ok');
  assert.equal(await server.stop(), 0);
});

test('a signal ends running streams and the process ends well', async () => {
  const server = await Server.start();
  const response = await server.post('/v1/chat/completions',
    { ...chat, max_tokens: 20_000, stream: true });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = (await reader.read()).value;
  const stopping = server.stop();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    text += value;
  }
  assert.match(text, /data: \{"error":\{"message":"the server is shutting down"/);
  assert.ok(text.endsWith('data: [DONE]\n\n'));
  assert.equal(await stopping, 0);
});

test('a seed means the same to the API and the command line', async () => {
  const server = await Server.start();
  const complete = async (seed) => {
    // Not by JSON.stringify: JavaScript's numbers end at 2^53.
    const body = `{"prompt": "x", "max_tokens": 12, "seed": ${seed}}`;
    const response = await fetch(`${server.url}/v1/completions`, { method: 'POST', body });
    assert.equal(response.status, 200, seed);
    return (await response.json()).choices[0].text;
  };
  const texts = new Map();
  for (const seed of ['0', '9223372036854775807', '9223372036854775808',
    '18446744073709551615']) {
    texts.set(seed, await complete(seed));
    const line = execFileSync(process.env.THIMBLE, ['generate', '--model', modelDir, '--prompt',
      'x', '--max-tokens', '12', '--seed', seed], { stdio: ['ignore', 'pipe', 'ignore'] });
    assert.equal(line.toString(), texts.get(seed), `seed ${seed}`);
  }
  assert.equal(new Set(texts.values()).size, texts.size, 'seeds differ');
  assert.equal(await complete('-1'), texts.get('18446744073709551615'));
  assert.equal(await complete('-9223372036854775808'), texts.get('9223372036854775808'));
  assert.equal(await server.stop(), 0);
});

test('names that were made to point here get no answer', async () => {
  const server = await Server.start('--allow-origin', 'https://chat.example');
  const { port } = new URL(server.url);
  const status = (host) => new Promise((resolve, reject) => {
    get({ port, host: '127.0.0.1', path: '/', headers: { Host: host } },
      (response) => { response.resume(); resolve(response.statusCode); }).on('error', reject);
  });
  assert.equal(await status(`evil.example:${port}`), 403);
  for (const host of [`127.0.0.1:${port}`, 'localhost', 'chat.example']) {
    assert.equal(await status(host), 200, host);
  }
  assert.equal(await server.stop(), 0);
  const open = await Server.start('--host', '0.0.0.0');
  const health = await fetch(`http://127.0.0.1:${new URL(open.url).port}/health`);
  assert.equal(health.status, 200);
  assert.equal(await open.stop(), 0);
});

test('nothing that lingers holds up the end', async () => {
  const server = await Server.start();
  for (let i = 0; i < 3; ++i) {
    await (await server.post('/v1/chat/completions', { ...chat, stream: true })).text();
  }
  const begin = performance.now();
  assert.equal(await server.stop(), 0);
  assert.ok(performance.now() - begin < 1500, `stopping took ${performance.now() - begin} ms`);
});

test('a busy port is an error that names it', async () => {
  const server = await Server.start();
  const port = new URL(server.url).port;
  await assert.rejects(Server.start('--port', port), new RegExp(`port ${port}.*in use`, 's'));
  assert.equal(await server.stop(), 0);
});

test('after kill -9 the same start serves the same answers', async () => {
  const ask = async (server) => {
    const response = await server.post('/v1/completions',
      { prompt: 'again', max_tokens: 8, temperature: 0 });
    return (await response.json()).choices[0].text;
  };
  const server = await Server.start();
  const { port } = new URL(server.url);
  const before = await ask(server);
  const stream = await server.post('/v1/chat/completions',
    { ...chat, max_tokens: 20_000, stream: true });
  await stream.body.getReader().read();
  server.child.kill('SIGKILL');
  await server.exit;
  const next = await Server.start('--port', port);
  assert.equal(await ask(next), before);
  assert.equal(await next.stop(), 0);
});

test('a full queue says when to come back', async () => {
  const server = await Server.start('--queue', '1', '--max-sequences', '1');
  const long = { ...chat, max_tokens: 20_000, stream: true };
  const controller = new AbortController();
  const first = await server.post('/v1/chat/completions', long, { signal: controller.signal });
  await first.body.getReader().read();
  const second = server.post('/v1/chat/completions', long, { signal: controller.signal });
  second.catch(() => {});
  while ((await server.health()).requests.waiting !== 1);
  const third = await server.post('/v1/chat/completions', chat);
  assert.equal(third.status, 429);
  assert.ok(Number(third.headers.get('retry-after')) >= 1);
  controller.abort();
  assert.ok(await server.becomesIdle());
  assert.equal((await server.post('/v1/chat/completions', chat)).status, 200);
  assert.equal(await server.stop(), 0);
});
