// Aim: the chat page works in a real browser, streams from a real model, shows the model's text as
// text, and sends what was chosen. Method: Chromium drives the page of the real binary; where exact
// text matters, a stage plays the answer on its way to the page.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setUpChat, stand } from './browser.mjs';

let page;
let stage;
let say;
let finished;

setUpChat((own) => ({ page, stage, say, finished } = own));

async function setEffort(value) {
  await page.getByRole('button', { name: /^Reasoning/ }).click();
  await page.getByLabel('Reasoning effort').fill(String(value));
  await page.keyboard.press('Escape');
}

test('says that a random model speaks noise', async () => {
  await page.getByText('its words are noise').waitFor();
});

test('streams an answer with its measures', async () => {
  await page.getByRole('button', { name: 'Settings' }).click();
  await page.getByLabel('Longest answer').fill('80');
  await page.getByRole('button', { name: 'Done' }).click();
  await setEffort(0);
  await say('Hello there');
  await page.locator('.turn.user').getByText('Hello there').waitFor();
  await finished();
  const facts = await page.locator('.facts').textContent();
  assert.match(facts, /^\d+ tokens? · [\d.,]+ tokens\/s · first token [\d.]+ s · \d+ prompt token/);
  assert.notEqual(await page.locator('.answer').textContent(), '');
  assert.equal(stage.asked.at(-1).reasoning_effort, 'none');
  assert.match(await page.locator('#context-text').textContent(), /^\d+ of [\d,]+ tokens$/);
});

test('a second answer says what the cache spared it', async () => {
  await page.getByRole('button', { name: 'Settings' }).click();
  await page.getByLabel('Longest answer').fill('3');
  await page.getByRole('button', { name: 'Done' }).click();
  await say(`Something long: ${'word '.repeat(60)}`);
  await finished();
  await say('And more');
  await finished();
  assert.match(await page.locator('.facts').last().textContent(),
    /[\d,]+ of [\d,]+ prompt tokens cached/);
});

// Stopped from within the page, as soon as there is some text: on a slow machine the answer would
// be complete before a click from outside arrived.
test('text arrives before the answer is complete, and can be stopped', async () => {
  let facts = '';
  // Random weights may end an answer before it is long enough to be stopped: then once more.
  for (let tries = 0; tries < 4 && !facts.includes('stopped'); ++tries) {
    await page.evaluate(() => {
      const length = (selector) =>
        [...document.querySelectorAll(selector)].at(-1)?.textContent.length ?? 0;
      const watch = new MutationObserver(() => {
        const stop = document.querySelector('button[aria-label="Stop the answer"]');
        if (!stop || (length('.thoughts .text') <= 3 && length('.answer') <= 3)) return;
        watch.disconnect();
        stop.click();
      });
      watch.observe(document.body, { childList: true, subtree: true, characterData: true });
    });
    await say('Talk for long');
    await finished();
    facts = await page.locator('.turn.assistant .facts').last().textContent();
  }
  assert.match(facts, /stopped/);
  assert.ok(await stand.server.becomesIdle(), 'the server stopped too');
});

test('the model cannot put markup into the page', async () => {
  const hostile = '<img src=x onerror="document.title=1"> <b>bold</b>\n\n[x](javascript:alert(1)) '
    + '[y](data:text/html,1) <script>document.title = "hit"</script>\n\n```html\n<i>code</i>\n```'
    + '\n\n| <u>a</u> | b |\n|---|---|\n| <img src=x> | **<b>c</b>** |\n\n- <svg onload=alert(1)>';
  await stage.playText(hostile, '<u>thought</u>');
  await say('<img src=x onerror="document.title=2"><b>question</b>');
  await finished();
  for (const name of ['img', 'b', 'script', 'i', 'u', 'a', 'svg']) {
    const made = page.locator(`.answer ${name}, .thoughts .text ${name}, .turn.user .text ${name}`);
    assert.equal(await made.count(), 0, `the model made <${name}>`);
  }
  assert.match(await page.locator('.answer').textContent(), /<img src=x onerror=/);
  assert.equal(await page.locator('#chat-list img, #chat-list b').count(), 0);
  assert.match(await page.title(), /^<img src=x onerror=.* · thimble$/);
});

test('shows a part of Markdown', async () => {
  await stage.playText('# Title\n\nA **bold** and *slanted* ~~gone~~ `code` at https://example.org/a.\n'
    + '- one\n- two\n  1. inner\n\n3. three\n\n> said\n\n| a | b |\n|---|:-:|\n| 1 | *2* |\n\n'
    + '```python\nprint(1)\n\nprint(2)\n```\n\nEnd.');
  await say('x');
  await finished();
  const answer = page.locator('.answer');
  assert.equal(await answer.locator('h3').textContent(), 'Title');
  assert.equal(await answer.locator('strong').textContent(), 'bold');
  assert.equal(await answer.locator('em').first().textContent(), 'slanted');
  assert.equal(await answer.locator('s').textContent(), 'gone');
  assert.equal(await answer.locator('p code').textContent(), 'code');
  assert.equal(await answer.locator('a').getAttribute('href'), 'https://example.org/a');
  assert.match(await answer.locator('a').getAttribute('rel'), /noopener noreferrer/);
  assert.equal(await answer.locator('ul > li').count(), 2);
  assert.equal(await answer.locator('ul li ol').textContent(), 'inner');
  assert.equal(await answer.locator('> ol').getAttribute('start'), '3');
  assert.equal(await answer.locator('blockquote').textContent(), 'said');
  assert.deepEqual(await answer.locator('th, td').allTextContents(), ['a', 'b', '1', '2']);
  assert.equal(await answer.locator('pre code').textContent(), 'print(1)\n\nprint(2)');
  assert.equal(await answer.locator('.code-head span').textContent(), 'python');
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await answer.getByRole('button', { name: 'Copy' }).click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), 'print(1)\n\nprint(2)');
  await page.getByRole('button', { name: 'Copy answer' }).click();
  assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^# Title/);
});

test('no text makes the page slow', async () => {
  const nasty = ['[', '*a ', '`a``', '**a ', '| a |\n', '~~a', 'https://', '> '];
  await stage.playText(nasty.map((part) => part.repeat(4000)).join('\n\n'));
  const begin = Date.now();
  await say('x');
  await finished();
  assert.ok(Date.now() - begin < 10_000);
});

test('settings are remembered and reach the server', async () => {
  await page.getByRole('button', { name: 'Settings' }).click();
  await page.getByLabel('System prompt').fill('Be terse.');
  await page.getByLabel('Temperature').fill('0.35');
  await page.keyboard.press('Escape');
  await setEffort(62);
  await page.reload();
  await stage.playText('ok');
  await say('x');
  await finished();
  const body = stage.asked.at(-1);
  assert.equal(body.temperature, 0.35);
  assert.equal(body.reasoning_effort, 62);
  assert.deepEqual(body.messages[0], { role: 'system', content: 'Be terse.' });
  await stage.playText('again');
  await say('y');
  await finished();
  assert.deepEqual(stage.asked.at(-1).messages.slice(1), [
    { role: 'user', content: 'x' }, { role: 'assistant', content: 'ok' },
    { role: 'user', content: 'y' },
  ]);
});

test('the effort slider: names, off, and the choice of the server', async () => {
  const sent = async () => {
    await stage.playText('ok');
    await say('x');
    await finished();
    return stage.asked.at(-1).reasoning_effort;
  };
  assert.equal(await sent(), undefined);
  const slider = page.getByLabel('Reasoning effort');
  await page.getByRole('button', { name: /^Reasoning/ }).click();
  for (const [name, value] of [['Off', 'none'], ['Low', 50], ['High', 75], ['Max', 100]]) {
    if (await slider.isHidden()) await page.getByRole('button', { name: /^Reasoning/ }).click();
    await page.getByRole('button', { name, exact: true }).click();
    assert.match(await slider.getAttribute('aria-valuetext'), new RegExp(`^${name}`));
    await page.keyboard.press('Escape');
    assert.equal(await sent(), value);
  }
  await page.getByRole('button', { name: /^Reasoning/ }).click();
  await page.keyboard.press('ArrowLeft');
  assert.equal(await slider.getAttribute('aria-valuetext'), '99');
  await page.getByLabel('Leave it to the server').check();
  await page.keyboard.press('Escape');
  assert.equal(await sent(), undefined);
});

test('settings that cannot be read are set aside, and said so', async () => {
  await page.evaluate(() => localStorage.setItem('thimble.settings', '{"system":'));
  await page.reload();
  await page.getByText('The settings could not be read').waitFor();
  assert.equal(await page.evaluate(() => localStorage.getItem('thimble.settings.damaged')),
    '{"system":');
});
