// Aim: the chat page is usable by everybody: on a phone, by keyboard alone, in both themes with
// readable contrast; and its pictures of the cache are live. Method: Chromium drives the page in
// those settings; contrasts are computed from what is on screen.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chat, openStage, setUpChat, stand, watch } from './browser.mjs';

let page;
let stage;

setUpChat((own) => ({ page, stage } = own));

const usage = {
  prompt_tokens: 100, completion_tokens: 9, total_tokens: 109,
  prompt_tokens_details: { cached_tokens: 96 }, completion_tokens_details: { reasoning_tokens: 4 },
  thimble: { replayed_tokens: 63, computed_tokens: 67, exact: true },
};

// A conversation with everything in it.
async function fill(where) {
  const { say, finished } = chat(where);
  stage.play((play) => {
    play.think('Thought about it.');
    play.say('# Title\n\nText with `code` and https://example.org.\n\n> quote\n\n');
    play.say(`\`\`\`\n${'long line '.repeat(40)}\n\`\`\`\n\n`);
    play.say(`|${' wide column |'.repeat(12)}\n|${'---|'.repeat(12)}\n`);
    play.call(0, 'call_1', 'a_tool_with_quite_a_long_name', `{"x":"${'y'.repeat(300)}"}`);
    play.finish('tool_calls', usage);
  });
  await say('a'.repeat(300));
  await finished();
  stage.play((play) => play.refuse(400, { message: 'no' }));
  await say('short');
  await finished();
}

const overflow = (where) => where.evaluate(() =>
  document.documentElement.scrollWidth - document.documentElement.clientWidth);

test('fits a phone, with everything open', async () => {
  await page.setViewportSize({ width: 360, height: 640 });
  await fill(page);
  assert.equal(await overflow(page), 0);
  const sideways = await page.locator('#scroll').evaluate((box) => box.scrollWidth
    - box.clientWidth);
  assert.equal(sideways, 0);
  await page.getByRole('button', { name: 'Send', exact: true }).waitFor();
  for (const [name, box] of [['Conversations', '#chats'], ['Cache', '#cache']]) {
    await page.getByRole('button', { name, exact: true }).click();
    await page.locator(box).waitFor();
    assert.equal(await overflow(page), 0, name);
    assert.equal(await page.locator('#stage').evaluate((node) => node.inert), true);
    await page.keyboard.press('Escape');
    await page.locator(box).waitFor({ state: 'hidden' });
    assert.equal(await page.evaluate(() => document.activeElement.textContent.trim()
      || document.activeElement.ariaLabel), name, 'the keyboard is back where it was');
  }
  await page.getByRole('button', { name: 'Reasoning' }).click();
  const pop = await page.locator('#effort-box').boundingBox();
  assert.ok(pop.x >= 0 && pop.x + pop.width <= 360);
  for (const name of ['Settings', 'Tools']) {
    await page.getByRole('button', { name, exact: true }).click();
    assert.equal(await overflow(page), 0, name);
    await page.keyboard.press('Escape');
  }
  stand.complaints.length = 0;  // the refusal
});

// From the top by Tab alone; every stop shows that it has the keyboard.
test('everything is reached by keyboard, and seen to be', async () => {
  await fill(page);
  await page.locator('.skip').focus();
  const reached = new Set();
  for (let i = 0; i < 60; ++i) {
    await page.keyboard.press('Tab');
    const at = await page.evaluate(async () => {
      // Until what the stop scrolled is seen: the way to the latest text may go away with it.
      for (let frame = 0; frame < 2; ++frame) await new Promise(requestAnimationFrame);
      const node = document.activeElement;
      if (node === document.body) return null;  // behind the last stop
      const style = getComputedStyle(node);
      const box = node.id === 'input' && node.closest('.composer');  // its frame shows it
      const seen = style.outlineStyle !== 'none'
        || (box && getComputedStyle(box).boxShadow.endsWith('0px 0px 0px 1px'));
      return { name: node.ariaLabel || node.textContent.trim().split('\n')[0] || node.id, seen };
    });
    if (!at) break;
    reached.add(at.name);
    assert.ok(at.seen, `${at.name} shows its focus`);
  }
  for (const name of ['New chat', 'Export', 'Cache', 'Settings', 'Edit message', 'Answer anew',
    'Try again', 'input', 'Tools']) {
    assert.ok(reached.has(name), `${name}, of ${[...reached].join(', ')}`);
  }
  stand.complaints.length = 0;  // the refusal
});

test('the way to the latest text does not lose the keyboard', async () => {
  await page.setViewportSize({ width: 360, height: 400 });
  await fill(page);
  const active = () => page.evaluate(() => document.activeElement.id);
  for (const leave of [() => page.keyboard.press('Enter'),
    () => page.locator('#scroll').evaluate((box) => box.scrollTo(0, box.scrollHeight))]) {
    await page.locator('#scroll').evaluate((box) => box.scrollTo(0, 0));
    await page.locator('#latest').waitFor();
    await page.locator('#latest').focus();
    await leave();
    await page.locator('#latest').waitFor({ state: 'hidden' });
    assert.equal(await active(), 'input');
  }
  stand.complaints.length = 0;  // the refusal
});

test('a conversation by keyboard alone', async () => {
  const { finished } = chat(page);
  const answer = (text) => stage.play((play) => {
    play.say(text);
    play.finish();
  });
  answer('one');
  await page.keyboard.type('first');
  await page.keyboard.press('Shift+Enter');
  await page.keyboard.type('line two');
  await page.keyboard.press('Enter');
  await finished();
  assert.equal(stage.asked[0].messages[0].content, 'first\nline two');
  await page.keyboard.press('Alt+KeyN');
  answer('two');
  await page.keyboard.type('second');
  await page.keyboard.press('Enter');
  await finished();
  await page.locator('#chat-list a').first().focus();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.locator('.answer').getByText('one').waitFor();
  await page.keyboard.press('Tab');  // rename
  await page.keyboard.press('Enter');
  await page.keyboard.type('Renamed');
  await page.keyboard.press('Enter');
  await page.getByRole('link', { name: 'Renamed' }).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Renamed');
});

test('streamed text is said politely, a paragraph at a time', async () => {
  const { say, finished } = chat(page);
  stage.play((play) => {
    play.say('First paragraph.\n\nSecond ');
    setTimeout(() => {
      play.say('paragraph.');
      play.finish();
    }, 300);
  });
  await say('x');
  const spoken = page.locator('#spoken');
  assert.equal(await spoken.getAttribute('aria-live'), 'polite');
  await spoken.getByText('First paragraph.').waitFor({ state: 'attached' });
  await finished();
  assert.deepEqual(await spoken.locator('p').allTextContents(),
    ['First paragraph.', 'Second paragraph.']);
  assert.equal(await page.locator('#status').textContent(), 'Answer complete');
});

// Every text on screen against what lies under it: 4.5 to 1, large text 3 to 1 (WCAG AA).
const poorContrasts = (where) => where.evaluate(() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], under) =>
    [r, g, b].map((value, i) => value * a + under[i] * (1 - a));
  const ground = (node) => {
    const own = rgba(getComputedStyle(node).backgroundColor);
    if (own[3] === 1) return own.slice(0, 3);
    return over(own, node.parentElement ? ground(node.parentElement) : [255, 255, 255]);
  };
  const light = (colour) => colour.map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  }).reduce((sum, value, i) => sum + value * [0.2126, 0.7152, 0.0722][i], 0);
  const poor = [];
  for (const node of document.querySelectorAll('body *')) {
    const said = [...node.childNodes].some((child) => child.nodeType === 3
      && child.data.trim());
    if (!said || !node.checkVisibility() || node.closest(':disabled, .hidden, .skip')) continue;
    const style = getComputedStyle(node);
    const under = ground(node);
    const a = light(over(rgba(style.color), under));
    const b = light(under);
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = Number.parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) poor.push(`${node.textContent.slice(0, 30)}: ${ratio}`);
  }
  return poor;
});

test('dark and light, chosen by system or by hand, can be read', async () => {
  for (const colorScheme of ['light', 'dark']) {
    const viewport = { width: 1280, height: 900 };
    const context = await stand.browser.newContext({ colorScheme, viewport });
    const shown = await context.newPage();
    await openStage(shown);
    const theme = () => shown.evaluate(() => document.documentElement.dataset.theme);
    assert.equal(await theme(), colorScheme);
    await fill(shown);
    await shown.locator('.thoughts summary').first().click();
    await shown.getByRole('button', { name: 'Cache' }).click();
    await shown.getByText('bytes a token').waitFor();
    await shown.getByRole('button', { name: /^Reasoning/ }).click();
    assert.deepEqual(await poorContrasts(shown), [], colorScheme);
    for (const name of ['Settings', 'Tools']) {
      await shown.getByRole('button', { name, exact: true }).click();
      assert.deepEqual(await poorContrasts(shown), [], `${colorScheme}, ${name}`);
      await shown.keyboard.press('Escape');
    }
    const other = colorScheme === 'light' ? 'dark' : 'light';
    while (await theme() !== other) await shown.getByRole('button', { name: /^Colours/ }).click();
    await shown.reload();
    assert.equal(await theme(), other, 'the choice is remembered');
    await context.close();
  }
  stand.complaints.length = 0;
});

test('who wants no motion gets none', async () => {
  await page.emulateMedia({ reducedMotion: 'reduce' });
  const { say } = chat(page);
  stage.play((play) => play.left());
  await say('x');
  const waiting = page.locator('.waiting i').first();
  await waiting.waitFor();
  assert.equal(await waiting.evaluate((node) => getComputedStyle(node).animationName), 'none');
});

test("the cache's pictures are live, and rest while nobody sees them", async () => {
  let asked = 0;
  const blocks = { total: 100, used: 30, live: 10, kept: 20, free: 70, indexed: 18, evicted: 4,
    tokens: 128, bytes: 113920 };
  stage.paths.set('/v1/cache', () => {
    ++asked;
    return { blocks, bytes_per_token: 890, pool_bytes: 11392000,
      snapshots: { count: 2, used: 5, bytes: 1 << 20, bytes_max: 1 << 24 },
      window_bytes_per_sequence: 2872320, requests: { running: 1, waiting: 0, finished: 8 },
      hits: 6, cached_tokens: 5000 + asked * 100, replayed_tokens: 254 };
  });
  await page.waitForTimeout(300);
  assert.equal(asked, 0);
  await page.setViewportSize({ width: 1280, height: 900 });
  await page.getByRole('button', { name: 'Cache', exact: true }).click();
  const panel = page.locator('#cache');
  await panel.getByRole('img', { name: 'in use 10.0 %, kept 20.0 %, free 70.0 %' }).waitFor();
  await panel.getByText('890 bytes a token').waitFor();
  await panel.getByText('75 % of 8 requests').waitFor();
  await panel.getByText('254', { exact: true }).waitFor();
  const widths = await panel.locator('.seg').evaluateAll((all) =>
    all.map((node) => node.getBoundingClientRect().width));
  assert.ok(Math.abs(widths[1] / widths[0] - 2) < 0.1 && widths[2] / widths[0] > 6, widths.join());
  await panel.locator('.spark .cached_tokens').nth(1).waitFor({ state: 'attached' });
  await page.getByRole('button', { name: 'Hide cache' }).click();
  await page.waitForTimeout(200);
  const before = asked;
  await page.waitForTimeout(1500);
  assert.equal(asked, before, 'nothing is asked for a panel that is closed');
});

test("the cache's pictures with the real server", async () => {
  await page.setViewportSize({ width: 1280, height: 900 });
  await page.getByRole('button', { name: 'Cache', exact: true }).click();
  const panel = page.locator('#cache');
  await panel.getByText(/^\d[\d,.]* bytes a token$/).waitFor();
  await panel.getByText(/room for [1-9][\d,]+ tokens/).waitFor();
  await page.getByRole('button', { name: 'Settings' }).click();
  await page.getByLabel('Longest answer').fill('200');
  await page.getByRole('button', { name: 'Done' }).click();
  const { say, finished } = chat(page);
  await say('word '.repeat(100));
  await finished();
  await panel.locator('dd', { hasText: /^[1-9][\d,]* blocks$/ }).nth(1).waitFor();
  await panel.getByText(/^0 % of 1 request began/).waitFor();
});

test('a phone by touch: the list, a conversation, and back', async () => {
  const context = await stand.browser.newContext({
    viewport: { width: 360, height: 640 }, hasTouch: true, isMobile: true,
  });
  const phone = await context.newPage();
  watch(phone);
  await openStage(phone);
  const { say, finished } = chat(phone);
  stage.play((play) => {
    play.say('by touch');
    play.finish();
  });
  await say('hello');
  await finished();
  await phone.getByRole('button', { name: 'New chat' }).tap();
  await phone.getByRole('button', { name: 'Conversations' }).tap();
  await phone.getByRole('link', { name: 'hello' }).tap();
  await phone.locator('.answer').getByText('by touch').waitFor();
  assert.equal(await phone.locator('#chats').isVisible(), false);
  await context.close();
});
