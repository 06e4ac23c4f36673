// Chromium as the page tests use it: one browser a file, one page a test, and no complaint of the
// console goes unseen.
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach } from 'node:test';
import { chromium } from 'playwright-core';
import { Stage } from './stage.mjs';
import { killLeftovers, Server } from './thimble.mjs';

const flags = ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync'];

// What the tests of a file share. `page` is new for each test; `complaints` is what its console
// said: a test that provokes some takes them out.
export const stand = { server: null, browser: null, page: null, stage: null, complaints: [] };

export function watch(page, complaints = stand.complaints) {
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(String(error)));
}

// Registers the hooks of a file: a server with these flags, a browser, a fresh page shown by
// open(page) for each test.
export function setUp(open, serverFlags = []) {
  before(async () => {
    stand.server = await Server.start(...serverFlags);
    stand.browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: flags });
  });
  after(async () => {
    await stand.browser?.close();
    try {
      assert.equal(await stand.server?.stop(), 0);
    } finally {
      killLeftovers();
    }
  });
  beforeEach(async () => {
    const context = await stand.browser.newContext();
    stand.page = await context.newPage();
    stand.complaints.length = 0;
    watch(stand.page);
    await open(stand.page);
  });
  afterEach(async () => {
    await stand.page.context().close();
    assert.deepEqual(stand.complaints, [], 'the console is clean');
  });
}

// setUp() of a file about the chat page: `adopt` gets page, stage, say and finished of each test.
export function setUpChat(adopt) {
  setUp(openStage);
  after(() => stand.stage.stop());
  beforeEach(() => adopt({ page: stand.page, stage: stand.stage, ...chat(stand.page) }));
}

// The chat page, by way of a stage that is the same for all tests of a file.
export async function openStage(page) {
  stand.stage ??= await Stage.start(stand.server.url);
  stand.stage.reset();
  await page.goto(stand.stage.url);
  await page.getByText('nano', { exact: true }).waitFor();
}

// What a person does on the chat page.
export function chat(page) {
  return {
    async say(text) {
      await page.getByLabel('Your message', { exact: true }).fill(text);
      await page.keyboard.press('Enter');
    },
    // No answer is being made, and the last one has its figures or says what went wrong.
    async finished() {
      await page.locator('#log:has(.turn.assistant):not(:has(.turn.running))').waitFor();
    },
  };
}
