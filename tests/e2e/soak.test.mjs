// Aim: a server under everything that clients do at once keeps its promises: each answer is the
// one its prompt has alone, memory stays flat, the cache's books are right after every step, and
// nothing is left behind. Method: many short requests against the real binary with a random model,
// among them aborts, floods, malformed bodies, slow readers and requests that never get whole.
//
// THIMBLE_SOAK: requests (about a minute's worth unless it says otherwise). THIMBLE_SOAK_SEED,
// THIMBLE_SOAK_GROWTH (MiB of resident memory, once it is warm).
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { Agent, request as httpRequest } from 'node:http';
import { connect } from 'node:net';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { killLeftovers, Server, textOf } from './thimble.mjs';

const kRequests = Number(process.env.THIMBLE_SOAK ?? 1500);
const kGrowthMiB = Number(process.env.THIMBLE_SOAK_GROWTH ?? 32);
const kWorkers = 24;
const kFlood = 150;         // requests at once,
const kFloodEvery = 500;    // each so many
const kLingeringMax = 24;   // slow readers and unfinished requests at a time

let random = mulberry(Number(process.env.THIMBLE_SOAK_SEED ?? 1));
let server;
const agent = new Agent({ keepAlive: true, maxSockets: 512 });
const seen = {};  // how many requests ended how

before(async () => {
  server = await Server.start('--context', '4096', '--kv-memory', '16MiB', '--snapshot-memory',
    '8MiB', '--replay', 'exact', '--check-cache');
});
after(killLeftovers);

function mulberry(seed) {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6D2B79F5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
}

const pick = (list) => list[random(list.length)];
const count = (what) => { seen[what] = (seen[what] ?? 0) + 1; };

// Prompts that share beginnings of several lengths, each with an answer of its own.
function makeCases() {
  const words = ['alpha ', 'beta ', 'gamma ', 'delta '];
  const beginnings = [0, 20, 60, 140].map((length, i) => words[i].repeat(length));
  return Array.from({ length: 48 }, (_, i) => {
    const text = `${pick(beginnings)}case ${i} ${'x'.repeat(random(40))}`;
    const sampled = { max_tokens: 3 + random(14), temperature: i % 3 === 0 ? 1 : 0, seed: i,
      ignore_eos: true };
    return i % 2 === 0
      ? { path: '/v1/completions', body: { prompt: text, logprobs: 2, ...sampled } }
      : { path: '/v1/chat/completions',
        body: { messages: [{ role: 'user', content: text }], ...sampled } };
  });
}

// What an answer says, log-probabilities included where they were asked for.
function said(choice) {
  const { text, logprobs, message, delta, finish_reason: reason } = choice;
  const from = message ?? delta ?? {};
  return { text: text ?? '', probs: logprobs?.token_logprobs ?? [],
    reasoning: from.reasoning_content ?? '', content: from.content ?? '', reason };
}

function joined(events) {
  const all = events.map((event) => said(event.choices[0]));
  return { text: all.map((e) => e.text).join(''), probs: all.flatMap((e) => e.probs),
    reasoning: all.map((e) => e.reasoning).join(''),
    content: all.map((e) => e.content).join(''), reason: all.at(-1)?.reason ?? null };
}

// onResponse(response, request) reads or does not; resolves with what it returns.
function send({ path, method = 'POST', body }, onResponse) {
  const headers = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) };
  return new Promise((resolve, reject) => {
    const request = httpRequest(`${server.url}${path}`, { method, agent, headers });
    request.on('error', reject);
    request.on('response', (response) => {
      response.on('error', reject);
      Promise.resolve(onResponse(response, request)).then(resolve, reject);
    });
    request.end(body);
  });
}

function eventsOf(text) {
  return text.split('\n\n').filter((part) => part.startsWith('data: {'))
    .map((part) => JSON.parse(part.slice(6)));
}

// True: there was no room for it, and the server said so properly.
function refused(response, text) {
  if (response.statusCode !== 429 && response.statusCode !== 503) return false;
  assert.ok(Number(response.headers['retry-after']) >= 1, text);
  assert.ok(JSON.parse(text).error.message);
  count(`refused ${response.statusCode}`);
  return true;
}

async function plain(one) {
  await send({ path: one.path, body: JSON.stringify(one.body) }, async (response) => {
    const text = await textOf(response);
    if (refused(response, text)) return;
    assert.equal(response.statusCode, 200, text);
    assert.deepEqual(said(JSON.parse(text).choices[0]), one.answer);
    count('plain');
  });
}

async function streamed(one, pause = 0) {
  const body = JSON.stringify({ ...one.body, stream: true });
  await send({ path: one.path, body }, async (response) => {
    const text = await textOf(response, pause);
    if (refused(response, text)) return;
    assert.equal(response.statusCode, 200, text);
    assert.ok(text.endsWith('data: [DONE]\n\n'), text.slice(-200));
    assert.deepEqual(joined(eventsOf(text)), one.answer);
    count(pause ? 'slow reader' : 'streamed');
  });
}

// Gone at some moment: before the answer, or within it. What came must be the answer's beginning.
async function aborted(one) {
  const body = JSON.stringify({ ...one.body, max_tokens: 400, stream: true });
  const early = random(4) === 0;
  const wait = random(60);
  await new Promise((resolve, reject) => {
    const request = httpRequest(`${server.url}${one.path}`, { method: 'POST', agent,
      headers: { 'Content-Type': 'application/json' } });
    request.on('error', () => resolve());  // it is we who hang up
    if (early) setTimeout(() => { request.destroy(); resolve(); }, wait);
    request.on('response', (response) => {
      let text = '';
      response.on('data', (part) => { text += part; });
      response.on('error', () => {});
      if (!early) setTimeout(() => request.destroy(), wait);
      response.on('close', () => {
        try {
          if (response.statusCode === 200) checkBeginning(text, one.answer);
          resolve();
        } catch (error) {
          reject(error);
        }
      });
    });
    request.end(body);
  });
  count('aborted');
}

function checkBeginning(text, answer) {
  const whole = text.slice(0, text.lastIndexOf('\n\n') + 2);
  const got = joined(eventsOf(whole));
  for (const key of ['text', 'content', 'reasoning']) {
    const length = Math.min(got[key].length, answer[key].length);
    assert.equal(got[key].slice(0, length), answer[key].slice(0, length));
  }
}

const malformed = [
  () => ({ body: '{"messages": [' }),
  () => ({ body: '' }),
  () => ({ body: 'null' }),
  () => ({ body: '[]' }),
  () => ({ body: '['.repeat(20_000) }),
  () => ({ body: Buffer.from([0x7b, 0xff, 0xfe, 0x00, 0x7d]) }),
  () => ({ body: '{"messages": "hello"}' }),
  () => ({ body: '{"messages": [{"role": "king", "content": "x"}]}' }),
  () => ({ body: '{"messages": [{"role": "user", "content": 7}]}' }),
  () => ({ body: '{"messages": [{"role": "user", "content": "x"}], "max_tokens": -1}' }),
  () => ({ body: '{"messages": [{"role": "user", "content": "x"}], "temperature": "hot"}' }),
  () => ({ body: '{"messages": [{"role": "user", "content": "x"}], "logit_bias": {"a": 1}}' }),
  () => ({ path: '/v1/completions', body: '{"prompt": [1000000000]}' }),
  () => ({ path: '/v1/completions', body: '{"prompt": "x", "n": 100000}' }),
  () => ({ path: '/v1/completions',
    body: JSON.stringify({ prompt: 'long '.repeat(20_000), max_tokens: 5 }) }),
  () => ({ path: '/v1/nowhere', body: '{}' }),
  () => ({ method: 'DELETE', body: '{}' }),
];

async function refusedBody() {
  const one = { path: '/v1/chat/completions', ...pick(malformed)() };
  await send(one, async (response) => {
    const text = await textOf(response);
    const status = response.statusCode;
    assert.ok(status >= 400 && status < 500 && status !== 429, `${status} to ${one.body}: ${text}`);
    assert.ok(JSON.parse(text).error.message, text);
    count('malformed');
  });
}

const beginningsOfRequests = [
  'POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Ty',
  'POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n{"prompt": "x',
  'GET / HTTP/1.1\r\nX-A: ',
  '\u0000\u0001\u0002 garbage \r\n\r\n',
];

// A byte now and then, and away before the request is whole.
async function unfinished() {
  const { port } = new URL(server.url);
  const socket = connect(Number(port), '127.0.0.1');
  socket.on('error', () => {});
  socket.resume();
  const text = pick(beginningsOfRequests);
  const step = Math.ceil(text.length / (1 + random(12)));
  for (let at = 0; at < text.length && !socket.destroyed; at += step) {
    socket.write(text.slice(at, at + step));
    await sleep(20 + random(80));
  }
  socket.destroy();
  count('unfinished');
}

async function flood(cases) {
  await Promise.all(Array.from({ length: kFlood }, () => plain(pick(cases))));
  count('floods');
}

function residentMiB() {
  const status = readFileSync(`/proc/${server.child.pid}/status`, 'utf8');
  return Number(status.match(/VmRSS:\s+(\d+)/)[1]) / 1024;
}

async function one(cases, lingering) {
  const dice = random(100);
  const chosen = pick(cases);
  if (dice < 45) return plain(chosen);
  if (dice < 65) return streamed(chosen);
  if (dice < 82) return aborted(chosen);
  if (dice < 93 || lingering.size >= kLingeringMax) return refusedBody();
  const slow = dice < 97 ? streamed(chosen, 20 + random(60)) : unfinished();
  const kept = slow.finally(() => lingering.delete(kept));
  lingering.add(kept);
  return undefined;
}

test(`${kRequests} requests of every kind`, { timeout: 3_600_000 }, async () => {
  const cases = makeCases();
  for (const each of cases) {
    await send({ path: each.path, body: JSON.stringify(each.body) }, async (response) => {
      const text = await textOf(response);
      assert.equal(response.statusCode, 200, text);
      each.answer = said(JSON.parse(text).choices[0]);
    });
  }
  const lingering = new Set();
  const memory = [];
  let done = 0;
  await Promise.all(Array.from({ length: kWorkers }, async () => {
    while (done < kRequests) {
      const mine = ++done;
      if (mine % kFloodEvery === 0) await flood(cases);
      if (mine % Math.ceil(kRequests / 20) === 0) memory.push(residentMiB());
      await one(cases, lingering);
    }
  }));
  await Promise.all(lingering);
  assert.ok(await server.becomesIdle(30_000), 'nothing runs or waits any more');
  for (const each of cases) await plain(each);  // the same as in the beginning
  const { blocks } = await (await fetch(`${server.url}/v1/cache`)).json();
  assert.equal(blocks.live, 0);
  assert.equal(blocks.used + blocks.free, blocks.total);
  const warm = Math.max(...memory.slice(0, memory.length / 2));
  const growth = memory.at(-1) - warm;
  console.log(JSON.stringify({ requests: done, ...seen, resident_mib: memory.map(Math.round) }));
  assert.ok(growth <= kGrowthMiB, `resident memory grew by ${growth} MiB: ${memory}`);
  for (const kind of ['plain', 'streamed', 'aborted', 'malformed', 'slow reader', 'unfinished']) {
    assert.ok(seen[kind] > 0, kind);
  }
  assert.equal(await server.stop(), 0, server.log.slice(-2000));
});
