// Live pictures of the server's cache, from GET /v1/cache. Asked for while somebody can see them,
// and not otherwise.
import { $, element } from '../base/dom.js';
import { bytesText, countText, plural, wholeText } from '../base/format.js';
import { getJson } from './api.js';
import { area, bars } from './spark.js';

const kAskMs = 1000;
const kSlots = 90;  // samples that a picture shows

// How a block's bytes are used, in the order of the bar.
const kStates = [
  ['live', 'In use', 'by answers that are being made'],
  ['kept', 'Kept', 'of earlier texts, for whoever begins alike'],
  ['free', 'Free', 'for whatever comes'],
];

// What rises while the server runs, and how much of it came between two looks.
const kCounters = [
  ['cached_tokens', 'Tokens from the cache', 'Prompt tokens that were not computed again'],
  ['replayed_tokens', 'Tokens replayed', 'Cached, but run again to rebuild the windows'],
];

export class CachePanel {
  constructor() {
    this.samples = [];
    this.timer = 0;
    this.build();
    document.addEventListener('visibilitychange', () => this.follow());
  }

  setOpen(open) {
    $('cache').hidden = !open;
    this.follow();
  }

  follow() {
    clearTimeout(this.timer);
    this.timer = 0;
    if (!$('cache').hidden && !document.hidden) this.look();
  }

  async look() {
    const due = kAskMs + performance.now();
    const mine = this.asking = {};  // an answer that comes after the panel was closed is dropped
    try {
      const now = await getJson('/v1/cache', AbortSignal.timeout(5000));
      if (this.asking !== mine) return;
      this.samples.push(now);
      if (this.samples.length > kSlots + 1) this.samples.shift();
      this.show(now);
    } catch (error) {
      $('cache-problem').textContent = `No figures: ${error.message}`;
    }
    if (this.asking !== mine || $('cache').hidden || document.hidden) return;
    this.timer = setTimeout(() => this.look(), Math.max(100, due - performance.now()));
  }

  build() {
    this.bar = element('div', 'pool-bar');
    this.bar.setAttribute('role', 'img');
    this.segments = new Map(kStates.map(([state]) => [state, element('span', `seg ${state}`)]));
    this.bar.append(...this.segments.values());
    this.legend = element('dl', 'legend');
    this.history = element('div', 'chart');
    this.price = element('div', 'price');
    this.cards = element('div', 'cards');
    this.rest = element('dl', 'facts-list');
    $('cache-body').append(
      element('section', 'part', element('h3', '', 'Pool'), this.bar, this.legend, this.history),
      this.price, this.cards, this.rest);
  }

  show(now) {
    $('cache-problem').textContent = '';
    this.showPool(now.blocks);
    this.showPrice(now);
    this.cards.replaceChildren(this.hitCard(now),
      ...kCounters.map((counter) => this.counterCard(counter, now)));
    this.showRest(now);
  }

  showPool(blocks) {
    const share = (count) => (blocks.total ? count / blocks.total * 100 : 0);
    const rows = [];
    const said = [];
    for (const [state, name, what] of kStates) {
      const count = blocks[state] ?? 0;
      const segment = this.segments.get(state);
      segment.style.flexGrow = String(share(count));
      segment.hidden = !count;
      const term = element('dt', '', element('i', `swatch ${state}`), name);
      term.title = what;
      rows.push(term, element('dd', '', `${wholeText(count)} blocks`),
        element('dd', 'faint', bytesText(count * blocks.bytes)));
      said.push(`${name.toLowerCase()} ${share(count).toFixed(1)} %`);
    }
    this.bar.setAttribute('aria-label', `The pool's blocks: ${said.join(', ')}`);
    this.legend.replaceChildren(...rows);
    this.history.replaceChildren(area(
      ['live', 'kept'].map((state) => this.samples.map((sample) => sample.blocks[state] ?? 0)),
      kSlots, this.most(), 'Blocks in use and kept, over the last minute and a half',
      ['live', 'kept']));
  }

  // The picture's height: what was used at most, since a large pool would leave nothing to see.
  most() {
    return Math.max(...this.samples.map(({ blocks }) => blocks.used)) * 1.15;
  }

  showPrice({ bytes_per_token: bytes, blocks }) {
    const number = element('strong', '', countText(bytes, 7));
    this.price.replaceChildren(element('div', '', number, ' bytes a token'),
      element('p', 'fine', `A block holds ${plural(blocks.tokens, 'token')} in `
        + `${wholeText(blocks.bytes)} bytes; room for ${wholeText(blocks.total * blocks.tokens)} `
        + 'tokens.'));
  }

  hitCard({ hits, requests }) {
    const of = requests.finished;
    const what = of ? `${(hits / of * 100).toFixed(0)} % of ${plural(of, 'request')} began with \
cached tokens` : 'No request yet';
    return this.card('Hits', wholeText(hits), what, this.steps((sample) => sample.hits), 'hit');
  }

  counterCard([name, title, what], now) {
    return this.card(title, wholeText(now[name]), what, this.steps((sample) => sample[name]), name);
  }

  // How much came between one look and the next; a server that began anew counts from 0.
  steps(of) {
    return this.samples.slice(1).map((sample, i) => Math.max(0, of(sample) - of(this.samples[i])));
  }

  card(title, figure, what, steps, className) {
    const most = Math.max(0, ...steps);
    return element('section', 'card',
      element('div', 'card-head', element('h3', '', title), element('strong', '', figure)),
      element('p', 'fine', what),
      bars(steps, kSlots, `${title}, second by second; at most ${wholeText(most)}`, className));
  }

  showRest({ snapshots, requests, blocks, window_bytes_per_sequence: window }) {
    const rows = [
      ['Snapshots', `${wholeText(snapshots.count)}, ${bytesText(snapshots.bytes)} of `
        + bytesText(snapshots.bytes_max)],
      ['Resumed from one', plural(snapshots.used, 'time')],
      ['In the index', plural(blocks.indexed, 'block')],
      ['Evicted so far', plural(blocks.evicted, 'block')],
      ['Windows, each request', bytesText(window)],
      ['Requests', `${requests.running} running, ${requests.waiting} waiting`],
    ];
    this.rest.replaceChildren(...rows.flatMap(([name, value]) =>
      [element('dt', '', name), element('dd', '', value)]));
  }
}
