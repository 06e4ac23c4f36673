// Aim: everything an answer may have is shown and can be acted on: reasoning, calls and their
// results, figures, being stopped, and every way to fail. Method: Chromium drives the page; a stage
// plays streams that a random model would not give.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setUpChat, stand } from './browser.mjs';

let page;
let stage;
let say;
let finished;

setUpChat((own) => ({ page, stage, say, finished } = own));

const shows = (text) => page.locator('#log').getByText(text).first().waitFor();

// Chromium itself complains of a refused request; nothing else may.
function forgiveRefusals() {
  const rest = stand.complaints.filter((text) => !/Failed to load resource|ERR_/.test(text));
  stand.complaints.splice(0, Infinity, ...rest);
}

async function offer(tools, choice = 'auto') {
  await page.getByRole('button', { name: /^Tools/ }).click();
  await page.getByLabel('Functions').fill(tools);
  await page.getByLabel('The model').selectOption(choice);
  await page.getByRole('button', { name: 'Done' }).click();
}

const weather = JSON.stringify({
  name: 'weather', parameters: { type: 'object', properties: {} },
});

test('reasoning is folded away, counted, and can be unfolded', async () => {
  let go;
  const gate = new Promise((resolve) => { go = resolve; });
  stage.play(async (play) => {
    play.think('Because ');
    await gate;
    play.think('of this.');
    play.say('Yes.');
    play.finish('stop', {
      prompt_tokens: 9, completion_tokens: 21, total_tokens: 30,
      prompt_tokens_details: { cached_tokens: 8 },
      completion_tokens_details: { reasoning_tokens: 17 },
      thimble: { replayed_tokens: 3, computed_tokens: 4, exact: false },
    });
  });
  await say('x');
  const fold = page.locator('.thoughts summary');
  await fold.getByText('Thinking').waitFor();
  assert.equal(await page.locator('.thoughts .text').isVisible(), false);
  go();
  await finished();
  assert.match(await fold.textContent(), /^Thought for [\d.]+ s, 17 tokens$/);
  await fold.focus();
  await page.keyboard.press('Enter');
  assert.equal(await page.locator('.thoughts .text').textContent(), 'Because of this.');
  assert.equal(await page.locator('.thoughts .text').isVisible(), true);
  assert.match(await page.locator('.facts').textContent(),
    /^21 tokens · .*8 of 9 prompt tokens cached · 3 replayed · bounded replay$/);
});

test('a call is shown, its result typed, and the conversation goes on', async () => {
  await offer(weather);
  stage.play((play) => {
    play.say('I look.');
    play.call(0, 'call_1', 'weather', '{"place":"<b>Rome</b>","days":2}');
    play.call(1, 'call_2', 'weather', '{"place":"Bonn"}');
    play.finish('tool_calls');
  });
  await say('Weather?');
  await finished();
  assert.deepEqual(stage.asked[0].tools, [{ type: 'function', function: JSON.parse(weather) }]);
  assert.equal(stage.asked[0].tool_choice, undefined);
  const call = page.getByRole('region', { name: 'Call of weather' }).first();
  assert.equal(await call.locator('.call-id').textContent(), 'call_1');
  assert.equal(await call.locator('pre').textContent(),
    '{\n  "place": "<b>Rome</b>",\n  "days": 2\n}');
  // The keyboard is in the first field already.
  await page.keyboard.type('hot');
  await page.getByLabel('Result of weather').nth(1).fill('wet');
  stage.playText('Hot in Rome, wet in Bonn.');
  await page.keyboard.press('Control+Enter');
  await shows('Hot in Rome');
  await finished();
  assert.deepEqual(stage.asked[1].messages.slice(1), [
    {
      role: 'assistant', content: 'I look.',
      tool_calls: [['call_1', '{"place":"<b>Rome</b>","days":2}'], ['call_2', '{"place":"Bonn"}']]
        .map(([id, text]) => ({ id, type: 'function',
          function: { name: 'weather', arguments: text } })),
    },
    { role: 'tool', tool_call_id: 'call_1', content: 'hot' },
    { role: 'tool', tool_call_id: 'call_2', content: 'wet' },
  ]);
  await page.reload();
  await page.getByRole('region', { name: 'Call of weather' }).first().getByText('hot').waitFor();
});

test('whoever writes on without a result leaves the call out', async () => {
  stage.play((play) => {
    play.call(0, 'call_1', 'weather', '{}');
    play.finish('tool_calls');
  });
  await say('Weather?');
  await finished();
  stage.playText('Fine.');
  await say('Never mind.');
  await finished();
  assert.deepEqual(stage.asked[1].messages.filter((message) => message.tool_calls), []);
});

test('the real server takes tools, and a demanded call comes', async () => {
  await offer(weather, 'required');
  await page.getByRole('button', { name: 'Settings' }).click();
  await page.getByLabel('Longest answer').fill('20');
  await page.getByRole('button', { name: 'Done' }).click();
  await say('Weather?');
  await finished();
  await page.locator('.call-name').getByText('weather').waitFor();
  await page.getByLabel('Result of weather').fill('sun');
  await page.getByRole('button', { name: 'Send the result' }).click();
  await finished();
  assert.equal(await page.locator('.problem p').count(), 0, 'the result was taken');
});

test('tools that are no JSON are not sent, and said so', async () => {
  await offer('[{"name": ');
  await page.getByRole('button', { name: 'Tools !' }).click();
  await page.getByText('Not sent:').waitFor();
  await page.keyboard.press('Escape');
  stage.playText('ok');
  await say('x');
  await finished();
  assert.equal(stage.asked[0].tools, undefined);
});

test('Escape stops, and the part that came stays', async () => {
  stage.play((play) => {
    play.say('The first half');
    return play.left();
  });
  await say('x');
  await shows('The first half');
  await page.keyboard.press('Escape');
  await finished();
  assert.match(await page.locator('.facts').textContent(), /stopped$/);
  stage.playText('ok');
  await say('go on');
  await finished();
  assert.deepEqual(stage.asked[1].messages[1], { role: 'assistant', content: 'The first half' });
});

test('an error within the stream is shown, and tried again', async () => {
  stage.play((play) => {
    play.event({ error: { message: 'it broke' } });
    play.response.end('data: [DONE]\n\n');
  });
  await say('x');
  await page.getByRole('alert').getByText('it broke').waitFor();
  stage.playText('now it works');
  await page.getByRole('button', { name: 'Try again' }).click();
  await shows('now it works');
  assert.equal(await page.getByRole('alert').count(), 0);
  assert.equal(await page.getByRole('group', { name: 'Versions' }).count(), 0, 'nothing was lost');
  await page.getByRole('button', { name: 'New chat' }).click();
  assert.equal(await page.locator('.turn').count(), 0);
  await page.getByText('What is on your mind?').waitFor();
});

test('an older failure tried again leaves what followed where it is', async () => {
  stage.play((play) => play.refuse(400, { message: 'no' }));
  await say('x');
  await finished();
  stage.playText('later answer');
  await say('y');
  await finished();
  stage.playText('answered after all');
  await page.getByRole('button', { name: 'Try again' }).click();
  await shows('answered after all');
  await finished();
  await page.reload();
  await shows('answered after all');
  await page.getByRole('button', { name: 'Earlier version' }).click();
  await shows('later answer');
  forgiveRefusals();
});

test('a connection that breaks keeps what came', async () => {
  stage.play((play) => {
    play.say('Half of');
    setTimeout(() => play.cut(), 200);
  });
  await say('x');
  await page.getByRole('alert').getByText('The connection ended before').waitFor();
  await shows('Half of');
  forgiveRefusals();
});

test('refusals in words: full context, full queue, the key', async () => {
  const cases = [
    [400, { message: "this model's context is 4096 tokens, but the prompt has 5000 and leaves no "
      + "room for an answer: shorten 'messages'", code: 'context_length_exceeded' },
    'The conversation has 5,000 tokens, the context holds 4,096', 'New chat'],
    [429, { message: '64 requests are waiting', code: 'queue_full' }, 'has its hands full',
      'Try again'],
    [401, { message: 'this server needs its API key' }, 'asks for its API key', 'Settings'],
  ];
  for (const [status, error, words, act] of cases) {
    stage.play((play) => play.refuse(status, error));
    await say(`case ${status}`);
    await page.getByRole('alert').getByText(words).waitFor();
    await page.locator('.problem').last().getByRole('button', { name: act }).waitFor();
  }
  forgiveRefusals();
});

test('a context too small for the prompt, said by the real server', async () => {
  await say('word '.repeat(60_000));
  await page.getByRole('alert').getByText(/tokens, the context holds [\d,]+/).waitFor();
  forgiveRefusals();
});

test('a server that stops, goes, and comes back', async () => {
  let state = 'stopping';
  stage.paths.set('/health', () => ({ status: 503, error: { message: 'stopping' } }));
  stage.paths.set('/v1/models', () => (state === 'back'
    ? { data: [{ id: 'other', max_model_len: 99, thimble: { chat: true } }] }
    : { status: 502, error: { message: 'gone' } }));
  stage.play((play) => play.refuse(503, { message: 'the server is shutting down' }));
  await say('x');
  await page.getByRole('alert').getByText('takes no requests now').waitFor();
  await page.getByText('The server is stopping').waitFor();
  await page.getByText('does not answer as expected: gone').waitFor();
  state = 'back';
  await page.getByRole('button', { name: 'Ask now' }).click();
  await page.getByText('other', { exact: true }).waitFor();
  assert.equal(await page.locator('.notice').getByText('The server').count(), 0);
  forgiveRefusals();
});
