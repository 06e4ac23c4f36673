// Aim: what a prompt shares with an earlier one is not computed again, the answer is the same, and
// usage says so; failures that other engines had at the edges of hits. Method: OpenAI's client
// against the real binary with a random model (window 64, pairs of 2, blocks of 128): each answer
// is compared with one that reuses nothing.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import OpenAI from 'openai';
import { killLeftovers, Server } from './thimble.mjs';

let server;
let client;

before(async () => {
  server = await Server.start('--context', '4096', '--snapshot-memory', '256MiB');
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
});
after(async () => {
  assert.equal(await server.stop(), 0, server.log);
  killLeftovers();
});

// Token ids of bytes, the same for the same seed.
function ids(count, seed) {
  const out = [];
  let state = seed * 2654435761 + 1;
  for (let i = 0; i < count; ++i) {
    state = (state * 1103515245 + 12345) % 2147483648;
    out.push(3 + (Math.floor(state / 65536) % 256));
  }
  return out;
}

const text = ids(2000, 1);

async function complete(prompt, fields = {}) {
  const answer = await client.completions.create({
    model: 'any', prompt, max_tokens: 3, temperature: 0, logprobs: 5, ignore_eos: true,
    replay: 'exact', ...fields,
  });
  const { usage } = answer;
  assert.equal(usage.prompt_tokens, prompt.length);
  assert.equal(usage.prompt_cache_hit_tokens + usage.prompt_cache_miss_tokens, prompt.length);
  assert.equal(usage.prompt_tokens_details.cached_tokens, usage.prompt_cache_hit_tokens);
  assert.ok(usage.prompt_cache_miss_tokens >= 1, 'a token at least is computed');
  assert.equal(usage.thimble.computed_tokens,
    usage.prompt_cache_miss_tokens + usage.thimble.replayed_tokens);
  assert.equal(usage.completion_tokens, 3);
  return { choice: answer.choices[0], usage, cached: usage.prompt_cache_hit_tokens };
}

// The same, and as a request that reuses nothing.
async function checked(prompt, fields = {}) {
  const answer = await complete(prompt, fields);
  const cold = await complete(prompt, { ...fields, cache_prompt: false });
  assert.equal(cold.cached, 0);
  assert.deepEqual(answer.choice, cold.choice, `${prompt.length} tokens, ${answer.cached} cached`);
  assert.equal(answer.usage.thimble.exact, true);
  return answer;
}

test('every prompt length, twice', async () => {
  for (let length = 1; length <= 300; ++length) {
    const edge = length < 4 || [62, 63, 64, 65, 66, 126, 127, 128, 129, 130, 255, 256, 257]
      .includes(length);
    const first = await (edge ? checked : complete)(text.slice(0, length));
    const second = await complete(text.slice(0, length));
    assert.deepEqual(second.choice, first.choice, `${length} tokens`);
    assert.equal(second.cached, length - 1);
  }
});

test('short prompts hit too', async () => {
  for (const length of [100, 500, 2000]) {
    const prompt = ids(length, length);
    assert.equal((await complete(prompt)).cached, 0);
    assert.ok((await checked(prompt)).cached >= length - 132);
  }
});

test('an odd prefix is continued from anywhere', async () => {
  const recorded = ids(301, 4);
  await complete(recorded);
  for (const back of [0, 1, 2, 3, 128, 129]) {
    const prompt = [...recorded.slice(0, 301 - back), ...ids(20, 100 + back)];
    const { cached } = await checked(prompt);
    assert.ok(cached >= 301 - back - 1, `${back} tokens back: ${cached} cached`);
  }
});

test('hits no longer than the window', async () => {
  for (let hit = 1; hit <= 130; hit += hit < 12 || (hit > 60 && hit < 67) || hit > 126 ? 1 : 11) {
    const tenant = { cache_salt: `tenant ${hit}` };
    await complete(ids(hit, 9), tenant);
    const { cached } = await checked([...ids(hit, 9), ...ids(7, 55)], tenant);
    assert.ok(cached >= hit, `${cached} of ${hit}`);
  }
});

test('a bounded replay is deterministic and says that it is not exact', async () => {
  const run = async (salt) => {
    const own = await Server.start('--context', '4096', '--snapshot-memory', '0',
      '--replay', 'bounded');
    const ask = async (prompt) => (await own.post('/v1/completions',
      { prompt, max_tokens: 8, temperature: 0, cache_salt: salt })).json();
    await ask(text.slice(0, 1000));
    const answer = await ask([...text.slice(0, 1000), ...ids(9, 3)]);
    assert.equal(await own.stop(), 0);
    return answer;
  };
  const [one, two] = [await run('a'), await run('b')];
  assert.equal(one.choices[0].text, two.choices[0].text);
  assert.deepEqual(one.usage, two.usage);
  assert.equal(one.usage.thimble.exact, false);
  assert.equal(one.usage.thimble.replayed_tokens, 64);
  assert.equal(one.usage.prompt_cache_hit_tokens, 1000);
});

test('tenants share nothing', async () => {
  const prompt = ids(200, 77);
  const answer = await complete(prompt, { user: 'ann' });
  for (const tenant of [{ user: 'bob' }, { user_id: 'ann' }, { cache_salt: 'ann' }, {}]) {
    const other = await complete(prompt, tenant);
    assert.equal(other.cached, 0, JSON.stringify(tenant));
    assert.deepEqual(other.choice, answer.choice);
  }
  assert.equal((await complete(prompt, { user: 'ann' })).cached, 199);
});

test('a conversation hits what was there before, streamed or not', async () => {
  const system = 'You are a harbour clerk who knows tides, moorings and the price of rope.';
  const ask = async (question, fields = {}) => {
    const stream = await client.chat.completions.create({
      model: 'any', max_tokens: 4, reasoning_effort: 'none', stream: true,
      stream_options: { include_usage: true },
      messages: [{ role: 'system', content: system }, { role: 'user', content: question }],
      ...fields,
    });
    let usage;
    for await (const chunk of stream) usage = chunk.usage ?? usage;
    return usage;
  };
  const prefix = 2 + system.length;  // BOS, the system's marker, a token a byte
  assert.equal((await ask('High water?')).prompt_cache_hit_tokens, 0);
  const other = await ask('Rope?');
  // The user's marker is common too.
  assert.equal(other.prompt_cache_hit_tokens, prefix + 1);
  // From the snapshot at the end of the system's part.
  assert.ok(other.thimble.replayed_tokens <= 1, JSON.stringify(other));
  assert.equal(other.thimble.exact, true);
});

test('an aborted stream leaves what it computed', async () => {
  const prompt = ids(300, 88);
  const stream = await client.completions.create({
    model: 'any', prompt, max_tokens: 3000, ignore_eos: true, stream: true,
  });
  let chunks = 0;
  for await (const chunk of stream) {
    assert.ok(chunk.choices);
    if (++chunks === 3) stream.controller.abort();
  }
  assert.ok(await server.becomesIdle());
  assert.equal((await checked([...prompt, ...ids(5, 2)])).cached, 300);
});

test('health counts, and the start tells what policies cost', async () => {
  const before = (await server.health()).cache;
  assert.ok(before.hits > 300 && before.cached_tokens > before.hits);
  assert.ok(before.blocks_used > 0 && before.blocks_used <= before.blocks_total);
  assert.ok(before.snapshots > 0);
  await complete(text.slice(0, 50));
  assert.equal((await server.health()).cache.hits, before.hits + 1);
  assert.match(server.log, /2,048 cached tokens and 256 new ones/);
  assert.match(server.log, /exact [\d,]+ \(about [\d.e-]+ s\)/);
});

test('unusable flags and fields are refused by name', async () => {
  for (const [flag, value, says] of [['--kv-memory', '8G', /--kv-memory: "8G" is no number/],
    ['--snapshot-memory', '-1', /--snapshot-memory/],
    ['--snapshot-ttl', '0', /--snapshot-ttl is 0/],
    ['--replay', 'fast', /auto, exact, bounded/], ['--kv-memory', '1', /memory has .*kv|fit/s]]) {
    await assert.rejects(Server.start(flag, value), says);
  }
  await assert.rejects(complete(text.slice(0, 5), { replay: 'fast' }), (error) => {
    assert.equal(error.status, 400);
    assert.equal(error.param, 'replay');
    assert.match(error.message, /auto, exact, bounded/);
    return true;
  });
});
