// Aim: the planner's page shows the command's figures, its sliders change them, and its pictures
// are drawn in both themes. Method: Chromium drives the page of the real binary.
import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { setUp, stand } from './browser.mjs';

let page;
let server;
const { complaints } = stand;

setUp(async (shown) => {
  await shown.goto(`${stand.server.url}/plan`);
  await shown.locator('#figures dl').first().waitFor();
});
beforeEach(() => ({ page, server } = stand));

const fact = (name) => page.locator('dt', { hasText: name }).first().locator('+ dd');

// Moves a slider as a person with a keyboard does, until its figure is what is wanted.
async function press(label, key, times = 1) {
  await page.getByLabel(label, { exact: false }).focus();
  for (let i = 0; i < times; ++i) await page.keyboard.press(key);
}

test('shows the released model', async () => {
  assert.equal(await fact('Global KV a token').textContent(), '890 B');
  assert.equal(await fact('Checkpoint').textContent(), '510,286,023,000 B');
  assert.equal(await fact('By entries alone').textContent(), '48');
});

test('sliders change the plan, the address keeps it', async () => {
  await press('Tokens a context', 'End');
  await page.locator('dt', { hasText: 'Contexts of 1,048,576 tokens' }).waitFor();
  assert.equal(await fact('By entries alone').textContent(), '46');
  await press('Memory for contexts', 'Home');
  await page.waitForFunction(() => /memory=1GiB/.test(location.hash));
  await page.locator('dt', { hasText: 'By entries alone' }).locator('+ dd', { hasText: /^1$/ })
    .waitFor();
  // Somebody else opens the address.
  const other = await page.context().newPage();
  await other.goto(page.url());
  await other.locator('dt', { hasText: 'Contexts of 1,048,576 tokens' }).waitFor();
  await other.close();
  await page.getByRole('button', { name: 'Reset' }).click();
  await page.locator('dt', { hasText: 'Contexts of 1,000,000 tokens' }).waitFor();
  assert.equal(new URL(page.url()).hash, '');
});

test('another mix of layers, and one that is none', async () => {
  const layers = page.getByLabel('Layers, as');
  await layers.fill('2xS,F2,3xU');
  await layers.press('Enter');
  await page.locator('dd', { hasText: /^178 B$/ }).waitFor();
  await page.locator('dt', { hasText: /^FP8 in every layer$/ })
    .locator('+ dd', { hasText: '1,280 B' }).waitFor();
  await layers.fill('2xQ');
  await layers.press('Enter');
  await page.getByRole('alert').getByText('expected items such as').waitFor();
  complaints.length = 0;  // Chromium reports the 400
});

test('a link that is never faster', async () => {
  await page.goto(`${server.url}/plan#link-gbps=0.000001`);
  await page.reload();
  await page.locator('dd', { hasText: 'never faster' }).waitFor();
});

test('models and machines', async () => {
  await page.locator('#machine').selectOption('server');
  await page.locator('dd', { hasText: '100 %' }).waitFor();
  await page.locator('#config').selectOption('v3.2');
  await page.locator('dd', { hasText: '48,068 B' }).waitFor();
  await page.getByText('not this architecture').waitFor();
  assert.equal(await page.locator('#charts img:visible').count(), 2);
  await page.locator('#config').selectOption('serving');
  await page.locator('#source', { hasText: 'nano' }).waitFor();
});

test('pictures are drawn in both themes and fit a phone', async () => {
  for (const colorScheme of ['light', 'dark']) {
    const viewport = { width: 400, height: 800 };
    const context = await stand.browser.newContext({ colorScheme, viewport });
    const phone = await context.newPage();
    await phone.goto(`${server.url}/plan`);
    await phone.waitForFunction(() => document.querySelectorAll('#charts img').length === 5
      && [...document.querySelectorAll('#charts img')].every((image) => image.naturalWidth > 0));
    assert.ok(await phone.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
    // The paper under the middle of the first picture: light or dark.
    const grey = await phone.evaluate(async () => {
      const image = document.querySelector('#charts img');
      const canvas = document.createElement('canvas');
      canvas.width = canvas.height = 4;
      const drawing = canvas.getContext('2d');
      drawing.drawImage(image, 0, 0, 4, 4, 0, 0, 4, 4);
      return drawing.getImageData(1, 1, 1, 1).data[0];
    });
    assert.ok(colorScheme === 'light' ? grey > 200 : grey < 60, `${colorScheme}: ${grey}`);
    await context.close();
  }
});

test('nonsense is a 400 that says why', async () => {
  const answer = await page.request.get(`${server.url}/v1/plan?context=-1`);
  assert.equal(answer.status(), 400);
  assert.match((await answer.json()).error.message, /whole number/);
});
