// Aim: conversations stay. They survive a reload, two tabs, damaged and full storage, and deletion
// by mistake; they are found, renamed, and carried elsewhere. Method: Chromium drives the page; a
// stage plays the answers.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { chat, setUpChat, stand, watch } from './browser.mjs';

let page;
let stage;
let say;
let finished;

setUpChat((own) => ({ page, stage, say, finished } = own));

async function talk(question, answer, where = page) {
  stage.playText(answer);
  const { say: ask, finished: end } = chat(where);
  await ask(question);
  await end();
}

const shows = (text, where = page) =>
  where.locator('#log').getByText(text, { exact: true }).waitFor();
const rows = (where = page) => where.locator('#chat-list .chat-link');
const titles = (where = page) => rows(where).allTextContents();
const stored = () => page.evaluate(() =>
  Object.entries(localStorage).filter(([key]) => key.startsWith('thimble.chat.'))
    .map(([, text]) => JSON.parse(text)));

test('a conversation survives a reload, and goes on', async () => {
  await talk('first question', 'first answer');
  await page.reload();
  await shows('first answer');
  assert.deepEqual(await titles(), ['first question']);
  await talk('second question', 'second answer');
  assert.deepEqual(stage.asked.at(-1).messages.map(({ content }) => content),
    ['first question', 'first answer', 'second question']);
});

test('an answer that a reload interrupted keeps what had come', async () => {
  stage.play((play) => {
    play.think('Hm.');
    play.say('The beginning');
    return play.left();
  });
  await say('x');
  await shows('The beginning');
  await page.reload();
  await shows('The beginning');
  await shows('not complete');
});

test('what is typed and not sent stays with its conversation', async () => {
  const input = page.getByLabel('Your message', { exact: true });
  await talk('one', 'a');
  await input.fill('half a thought');
  await page.getByRole('button', { name: 'New chat' }).click();
  assert.equal(await input.inputValue(), '');
  await page.goBack();
  assert.equal(await input.inputValue(), 'half a thought');
  await page.reload();
  assert.equal(await input.inputValue(), 'half a thought');
});

test('another conversation meanwhile: the answer goes on', async () => {
  let go;
  const gate = new Promise((resolve) => { go = resolve; });
  stage.play(async (play) => {
    play.say('begun');
    await gate;
    play.say(' and done');
    play.finish();
  });
  await say('slow');
  await shows('begun');
  await page.getByRole('button', { name: 'New chat' }).click();
  await talk('quick', 'swift');
  assert.equal(await page.locator('.chat.running').count(), 1);
  go();
  await page.locator('#chat-list:not(:has(.running))').waitFor();
  await page.getByRole('link', { name: 'slow' }).click();
  await shows('begun and done');
});

test('renamed, searched, deleted and brought back', async () => {
  await talk('about cats', 'they purr');
  await page.getByRole('button', { name: 'New chat' }).click();
  await talk('about dogs', 'they bark');
  await page.getByRole('button', { name: 'Rename about cats' }).press('Enter');
  await page.getByLabel('Name of the conversation').fill('<b>Felines</b>');
  await page.keyboard.press('Enter');
  assert.deepEqual(await titles(), ['about dogs', '<b>Felines</b>']);
  await page.getByLabel('Search conversations').fill('PURR');
  assert.deepEqual(await titles(), ['<b>Felines</b>']);
  await page.getByLabel('Search conversations').fill('');
  await page.getByRole('button', { name: 'Delete <b>Felines</b>' }).press('Enter');
  assert.deepEqual(await titles(), ['about dogs']);
  assert.equal((await stored()).length, 1);
  await page.getByRole('button', { name: 'Undo' }).click();
  assert.deepEqual(await titles(), ['about dogs', '<b>Felines</b>']);
  await shows('they purr');
  await page.reload();
  assert.deepEqual(await titles(), ['about dogs', '<b>Felines</b>']);
});

test('an edited question and a second answer are versions: nothing is lost', async () => {
  await talk('question', 'first answer');
  stage.playText('second answer');
  await page.getByRole('button', { name: 'Answer anew' }).click();
  await shows('second answer');
  await shows('2 of 2');
  await page.getByRole('button', { name: 'Earlier version' }).click();
  await shows('first answer');
  stage.playText('answer to the edited');
  await page.getByRole('button', { name: 'Edit message' }).click();
  await page.getByLabel('Edit your message').fill('edited question');
  await page.keyboard.press('Enter');
  await shows('answer to the edited');
  await finished();
  assert.deepEqual(stage.asked.at(-1).messages, [{ role: 'user', content: 'edited question' }]);
  await page.reload();
  await shows('answer to the edited');
  await page.getByRole('button', { name: 'Earlier version' }).first().click();
  await page.locator('.turn.user').getByText('question', { exact: true }).waitFor();
  assert.equal((await stored())[0].turns.length, 5);
});

test('two tabs with one conversation keep what each of them said', async () => {
  await talk('shared', 'root');
  const other = await page.context().newPage();
  watch(other);
  await other.goto(page.url());
  await shows('root', other);
  // Both answer the same turn before either hears of the other.
  await page.evaluate(() => addEventListener('storage', (e) => e.stopImmediatePropagation(), true));
  await talk('from the other', 'heard there', other);
  await talk('from here', 'heard here');
  const [{ turns }] = await stored();
  assert.deepEqual(new Set(turns.map(({ content }) => content)), new Set(
    ['shared', 'root', 'from the other', 'heard there', 'from here', 'heard here']));
  await other.close();
});

test('another tab sees new conversations, names and deletions', async () => {
  const other = await page.context().newPage();
  watch(other);
  await other.goto(stand.stage.url);
  await talk('made here', 'yes');
  await rows(other).getByText('made here').waitFor();
  await rows(other).click();
  await shows('yes', other);
  await talk('and on', 'further');
  await shows('further', other);
  await page.getByRole('button', { name: 'Delete made here' }).press('Enter');
  await other.getByText('deleted in another tab').waitFor();
  await other.getByRole('button', { name: 'Keep it' }).click();
  await rows(page).getByText('made here').waitFor();
  await other.close();
});

test('damaged conversations are shown, saved and never touched', async () => {
  await talk('healthy', 'yes');
  const broken = { 'thimble.chat.a': '{"v":1,"id":"a","turns":[{"id":"t"', 'thimble.chat.b': '[]',
    'thimble.chat.c': JSON.stringify({ v: 9, id: 'c' }) };
  await page.evaluate((items) => Object.entries(items)
    .forEach(([key, text]) => localStorage.setItem(key, text)), broken);
  await page.reload();
  await page.getByText("3 conversations in this browser's storage cannot be read").waitFor();
  await shows('yes');
  await talk('still works', 'indeed');
  for (const [key, text] of Object.entries(broken)) {
    assert.equal(await page.evaluate((name) => localStorage.getItem(name), key), text);
  }
  const download = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Save the text of a.txt' }).click();
  assert.equal(readFileSync(await (await download).path(), 'utf8'), broken['thimble.chat.a']);
  await page.getByRole('button', { name: 'Delete a.txt' }).click();
  await page.getByText('2 conversations in this').waitFor();
  await page.getByRole('button', { name: 'Undo' }).click();
  await page.getByText('3 conversations in this').waitFor();
});

test('full storage is said, and what is not stored can be saved', async () => {
  await page.evaluate(() => {
    let size = 1 << 22;
    for (let i = 0; size >= 1; ++i) {
      try {
        localStorage.setItem(`filler${i}`, 'x'.repeat(size));
      } catch {
        size >>= 1;
      }
    }
  });
  await talk('too much', 'kept in memory');
  await page.getByText("This browser's storage is full").waitFor();
  await page.getByRole('button', { name: 'New chat' }).click();
  await page.getByRole('link', { name: 'too much (not kept)' }).click();
  await shows('kept in memory');
  const download = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Save as a file' }).click();
  const file = JSON.parse(readFileSync(await (await download).path(), 'utf8'));
  assert.equal(file.chats[0].turns[1].content, 'kept in memory');
  await page.evaluate(() => localStorage.removeItem('filler0'));
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.locator("#notices:not(:has-text('full'))").waitFor({ state: 'attached' });
  assert.equal((await stored()).length, 1);
});

test('without any storage the page still talks, and says so', async () => {
  const context = await stand.browser.newContext();
  await context.addInitScript(() => {
    Object.defineProperty(window, 'localStorage', { get() { throw new Error('blocked'); } });
  });
  const shut = await context.newPage();
  watch(shut);
  await shut.goto(stand.stage.url);
  await talk('anyone?', 'here', shut);
  await shows('here', shut);
  await shut.getByText('keep nothing').waitFor();
  await context.close();
});

test('exported, and imported elsewhere', async () => {
  await talk('travels', 'far');
  const download = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Export' }).click();
  const path = await (await download).path();
  const context = await stand.browser.newContext();
  const other = await context.newPage();
  watch(other);
  await other.goto(stand.stage.url);
  const choose = async (file) => {
    const chooser = other.waitForEvent('filechooser');
    await other.getByRole('button', { name: 'Import' }).click();
    await (await chooser).setFiles(file);
  };
  await choose({ name: 'no.json', mimeType: 'application/json', buffer: Buffer.from('{"a":1}') });
  await other.getByText('“no.json” was not imported').waitFor();
  await choose(path);
  await other.getByText('1 conversation imported').waitFor();
  await rows(other).click();
  await shows('far', other);
  await choose(path);  // again: the same turns, not twice
  assert.equal(await rows(other).count(), 1);
  await context.close();
});
