// Mixed text, the same on every run: files that the repository, its npm packages and the
// distribution carry, and seeded inventions (vocabulary salad, Unicode by block, white space,
// digits, marks, control tokens). No malformed UTF-8: the reference takes only strings.
import {existsSync, readdirSync, readFileSync, statSync} from 'node:fs';
import {dirname, join} from 'node:path';
import {fileURLToPath} from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));

// SplitMix32: plenty for choosing text.
export function makeRandom(seed) {
  let state = seed >>> 0;
  return (bound) => {
    state = (state + 0x9E3779B9) >>> 0;
    let z = state;
    z = Math.imul(z ^ (z >>> 16), 0x85EBCA6B);
    z = Math.imul(z ^ (z >>> 13), 0xC2B2AE35);
    return ((z ^ (z >>> 16)) >>> 0) % bound;
  };
}

// Files under `path`, sorted, so that every run reads them in one order.
function* walk(path) {
  if (!existsSync(path)) return;
  if (!statSync(path).isDirectory()) {
    yield path;
    return;
  }
  for (const name of readdirSync(path).sort()) yield* walk(join(path, name));
}

// What lies under `roots`, in chunks, until `limit` characters.
function fileTexts(roots, limit, chunk = 1 << 16) {
  const texts = [];
  let total = 0;
  for (const file of roots.flatMap((root) => [...walk(root)])) {
    const text = readFileSync(file, 'utf8');
    for (let at = 0; at < text.length && total < limit; at += chunk) {
      // Through bytes, so that a surrogate pair cut in half becomes U+FFFD.
      texts.push(Buffer.from(text.slice(at, at + chunk), 'utf8').toString('utf8'));
      total += texts.at(-1).length;
    }
  }
  return texts;
}

// English prose: licence texts of the distribution and the repository's own.
export const prose = (limit) =>
  fileTexts(['/usr/share/common-licenses', join(here, '../../LICENSE')], limit);

// Code and its comments: the C++ library's headers, JavaScript and TypeScript of npm packages.
export const code = (limit) => [
  ...fileTexts(['/usr/include/c++'], limit / 2),
  ...fileTexts(['@anush008/tokenizers', '@lenml/tokenizers/src', '@lenml/tokenizers/dist/main.mjs']
      .map((name) => join(here, 'node_modules', name)), limit / 2),
];

const pick = (random, list) => list[random(list.length)];

// Whole vocabulary entries side by side: every script the vocabulary knows, in plausible words.
function vocabularySalad(words, random, count, separator) {
  const parts = [];
  for (let i = 0; i < count; ++i) parts.push(pick(random, words), separator(random));
  return parts.join('');
}

function unicodeSoup(codePoints, random, count) {
  const parts = [];
  let at = random(codePoints.length);
  for (let i = 0; i < count; ++i) {
    // Mostly neighbours, so that runs of one script and one category arise.
    at = random(8) === 0 ? random(codePoints.length) : (at + random(40)) % codePoints.length;
    parts.push(String.fromCodePoint(codePoints[at]));
  }
  return parts.join('');
}

const kFragments = [
  ' ', '  ', '    ', '\t', '\n', '\r\n', '\n\n', '\r', '\u000b', '\u000c', '\u0085', '\u00a0',
  '\u1680', '\u180e', '\u2003', '\u2028', '\u202f', '\u3000', '\u200b', '\u200d', '\ufeff', '\0',
  '0', '1', '12', '123', '1234567890', '٣٤٥', '一二三', 'Ⅷ', '½', '²', '①',
  'a', 'I', 'the', 'The', 'don\'t', 'O\'Neill', 'x_y', 'camelCase', 'naïve', 'e\u0301', 'ﬁ', 'ß',
  '.', ',', '...', '!?', '--', '->', '==', '+=', '//', '/*', '*/', '#include', '<div>', '</div>',
  '`', '^', '~', '$', '|', '{', '}', '(', ')', '[', ']', '\\n', '"', '\'', '“', '”', '«', '€', '™',
  '你好', '世界', '，', '。', 'こんにちは', 'カタカナ', '한국어', 'Привет', 'سلام', 'שלום', 'नमस्ते', 'ไทย',
  '😀', '🎉', '👩‍👩‍👧‍👦', '🇫🇷', '❤️', '𝒳', '𐍈', '\u0301\u0302',
];

function fragmentSoup(random, count) {
  const parts = [];
  for (let i = 0; i < count; ++i) parts.push(pick(random, kFragments));
  return parts.join('');
}

// Every code point in the places where its category decides: after a letter, a space, doubled.
function everyCodePoint(codePoints) {
  const texts = [];
  for (let at = 0; at < codePoints.length; at += 512) {
    const parts = [];
    for (const codePoint of codePoints.slice(at, at + 512)) {
      const c = String.fromCodePoint(codePoint);
      parts.push(`a${c}b ${c}7${c}${c}. `);
    }
    texts.push(parts.join(''));
  }
  return texts;
}

export function inventions(tokenizer, codePoints, seed) {
  const random = makeRandom(seed);
  const decoder = new TextDecoder('utf-8', {fatal: true});
  const words = Object.keys(tokenizer.model.vocab).flatMap((spelling) => {
    try {
      return [decoder.decode(unspell(spelling))];
    } catch {
      return [];  // Part of a character.
    }
  });
  const added = tokenizer.added_tokens.map((token) => token.content);
  const texts = everyCodePoint(codePoints);
  const separators = ['', '', ' ', ' ', '\n', '1', ', '];
  for (let i = 0; i < 60; ++i) {
    texts.push(vocabularySalad(words, random, 2000, (r) => pick(r, separators)));
    texts.push(vocabularySalad(words, random, 2000, () => ''));
    texts.push(unicodeSoup(codePoints, random, 6000));
    texts.push(fragmentSoup(random, 4000));
    texts.push(vocabularySalad([...added, ...kFragments], random, 300, () => ''));
  }
  for (const run of [' ', '\n', 'a', '7', '!', '한', '一', '\u0301', ' \n', 'ab', '=-']) {
    for (const count of [2, 3, 7, 64, 1000, 30000]) {
      texts.push(run.repeat(count), `x${run.repeat(count)}y`);
    }
  }
  return texts;
}

// Spelling in the byte alphabet (src/text/internal/byte_level.h) to bytes.
function unspell(spelling) {
  return Uint8Array.from([...spelling].map((symbol) => {
    const byte = kByteOfSymbol.get(symbol);
    if (byte === undefined) throw new Error('not in the byte alphabet');
    return byte;
  }));
}

const kByteOfSymbol = new Map();
for (let byte = 0, next = 0x100; byte < 256; ++byte) {
  const itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  kByteOfSymbol.set(String.fromCodePoint(itself ? byte : next++), byte);
}
