// Aim: the chat page works in a real browser, streams, and shows the model's text as text. Method:
// Chromium drives the page of the real binary; where exact text matters, the answer is replaced on
// its way to the page.
import assert from 'node:assert/strict';
import { after, before, beforeEach, afterEach, test } from 'node:test';
import { chromium } from 'playwright-core';
import { Server } from './thimble.mjs';

let server;
let browser;
let page;
let complaints;

before(async () => {
  server = await Server.start();
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM,
    args: ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking',
      '--disable-component-update', '--disable-sync'],
  });
});
after(async () => {
  await browser?.close();
  assert.equal(await server?.stop(), 0);
});

beforeEach(async () => {
  page = await browser.newPage();
  complaints = [];
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(String(error)));
  await page.goto(server.url);
  await page.getByText('nano', { exact: true }).waitFor();
});
afterEach(async () => {
  await page.close();
  assert.deepEqual(complaints, [], 'the console is clean');
});

// The page gets this answer instead of the model's.
async function answerWith(content, reasoning = '') {
  const chunk = (delta, reason = null) =>
    `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: reason }] })}\n\n`;
  const body = (reasoning ? chunk({ reasoning_content: reasoning }) : '') + chunk({ content })
    + chunk({}, 'stop') + 'data: [DONE]\n\n';
  await page.route('**/v1/chat/completions', (route) =>
    route.fulfill({ contentType: 'text/event-stream', body }));
}

async function say(text) {
  await page.getByLabel('Your message').fill(text);
  await page.keyboard.press('Enter');
}

const finished = () => page.locator('.turn.assistant .facts').last().waitFor();

test('says that a random model speaks noise', async () => {
  await page.getByText('its words are noise').waitFor();
});

test('streams an answer with its measures', async () => {
  await page.getByRole('button', { name: 'Settings' }).click();
  await page.getByLabel('Longest answer').fill('80');
  await page.getByLabel('Reasoning').selectOption('none');
  await page.getByRole('button', { name: 'Done' }).click();
  await say('Hello there');
  await page.getByText('Hello there').waitFor();
  await finished();
  const facts = await page.locator('.facts').textContent();
  assert.match(facts, /^\d+ tokens · [\d.]+ tokens\/s · first token [\d.]+ s/);
  assert.notEqual(await page.locator('.answer').textContent(), '');
});

// Stopped from within the page, as soon as there is some text: on a slow machine the answer would
// be complete before a click from outside arrived.
test('text arrives before the answer is complete, and can be stopped', async () => {
  await page.evaluate(() => {
    const length = (selector) => document.querySelector(selector)?.textContent.length ?? 0;
    const watch = new MutationObserver(() => {
      if (length('.thoughts .text') <= 3 && length('.answer') <= 3) return;
      watch.disconnect();
      document.querySelector('button[aria-label="Stop the answer"]').click();
    });
    watch.observe(document.body, { childList: true, subtree: true, characterData: true });
  });
  await say('Talk for long');
  await finished();
  assert.match(await page.locator('.turn.assistant .facts').textContent(), /stopped/);
  assert.ok(await server.becomesIdle(), 'the server stopped too');
});

test('the model cannot put markup into the page', async () => {
  const hostile = '<img src=x onerror="document.title=1"> <b>bold</b>\n\n[x](javascript:alert(1)) '
    + '<script>document.title = "hit"</script>\n\n```html\n<i>code</i>\n```';
  await answerWith(hostile, '<u>thought</u>');
  await say('x');
  await finished();
  for (const name of ['img', 'b', 'script', 'i', 'u', 'a']) {
    const made = page.locator(`.answer ${name}, .thoughts ${name}`);
    assert.equal(await made.count(), 0, `the model made <${name}>`);
  }
  assert.match(await page.locator('.answer').textContent(), /<img src=x onerror=/);
  assert.equal(await page.title(), 'nano · thimble');
});

test('shows a part of Markdown', async () => {
  await answerWith('# Title\n\nA **bold** and *slanted* `code` at https://example.org/a.\n\n'
    + '- one\n- two\n\n3. three\n\n> said\n\n```python\nprint(1)\n\nprint(2)\n```\n\nEnd.');
  await say('x');
  await finished();
  const answer = page.locator('.answer');
  assert.equal(await answer.locator('h3').textContent(), 'Title');
  assert.equal(await answer.locator('strong').textContent(), 'bold');
  assert.equal(await answer.locator('em').textContent(), 'slanted');
  assert.equal(await answer.locator('p code').textContent(), 'code');
  assert.equal(await answer.locator('a').getAttribute('href'), 'https://example.org/a');
  assert.equal(await answer.locator('ul li').count(), 2);
  assert.equal(await answer.locator('ol').getAttribute('start'), '3');
  assert.equal(await answer.locator('blockquote').textContent(), 'said');
  assert.equal(await answer.locator('pre code').textContent(), 'print(1)\n\nprint(2)');
  assert.equal(await answer.locator('.code-head span').textContent(), 'python');
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await answer.getByRole('button', { name: 'Copy' }).click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), 'print(1)\n\nprint(2)');
});

test('reasoning is folded away and can be unfolded', async () => {
  await answerWith('Yes.', 'Because of this.');
  await say('x');
  await finished();
  const thought = page.getByText('Because of this.');
  assert.equal(await thought.isVisible(), false);
  await page.getByText('Thought for').click();
  assert.equal(await thought.isVisible(), true);
});

test('settings are remembered and reach the server', async () => {
  await page.getByRole('button', { name: 'Settings' }).click();
  await page.getByLabel('System prompt').fill('Be terse.');
  await page.getByLabel('Temperature').fill('0.35');
  await page.getByLabel('Reasoning').selectOption('low');
  await page.keyboard.press('Escape');
  await page.reload();
  await answerWith('ok');
  const asked = page.waitForRequest('**/v1/chat/completions');
  await say('x');
  const body = (await asked).postDataJSON();
  assert.equal(body.temperature, 0.35);
  assert.equal(body.reasoning_effort, 'low');
  assert.deepEqual(body.messages[0], { role: 'system', content: 'Be terse.' });
  await finished();
  const next = page.waitForRequest('**/v1/chat/completions');
  await say('y');
  assert.deepEqual((await next).postDataJSON().messages.slice(1), [
    { role: 'user', content: 'x' }, { role: 'assistant', content: 'ok' },
    { role: 'user', content: 'y' },
  ]);
  await page.evaluate(() => localStorage.clear());
});

test('an error of the server is shown, and a new chat starts clean', async () => {
  await page.route('**/v1/chat/completions', (route) => route.fulfill({
    status: 200,
    contentType: 'text/event-stream',
    body: 'data: {"error": {"message": "it broke"}}\n\ndata: [DONE]\n\n',
  }));
  await say('x');
  await page.getByRole('alert').getByText('it broke').waitFor();
  await page.getByRole('button', { name: 'New chat' }).click();
  assert.equal(await page.locator('.turn').count(), 0);
  await page.getByText('What is on your mind?').waitFor();
});

test('fits a phone', async () => {
  await page.setViewportSize({ width: 360, height: 640 });
  await answerWith(`${'word '.repeat(200)}\n\n\`\`\`\n${'long line '.repeat(40)}\n\`\`\``);
  await say('a'.repeat(300));
  await finished();
  const overflow = await page.evaluate(() =>
    document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.equal(overflow, 0);
  await page.getByRole('button', { name: 'Send' }).waitFor();
});
