// Aim: our ids equal those of Hugging Face `tokenizers` (npm @anush008/tokenizers) for the released
// vocabulary, over several MB of mixed text, with added tokens active.
// Method: both encode the same texts (corpus.mjs); ours through encode_tool. Code points that the
// regex engine's Unicode version does not assign are left out: `encode_tool --unassigned`.
//
//   node compare.mjs ENCODE_TOOL TOKENIZER.json
import {execFileSync} from 'node:child_process';
import {mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';

import {code, inventions, prose} from './corpus.mjs';
import {loadReference} from './reference.mjs';

const kSeed = 20260910;
const kBytesMin = 4e6;

// Assigned code points, ascending, without surrogates and private use beyond a few.
function assignedCodePoints(tool) {
  const unassigned = execFileSync(tool, ['--unassigned'], {encoding: 'utf8'}).trim().split('\n')
      .map((line) => line.split(' ').map((hex) => parseInt(hex, 16)));
  const skipped = [...unassigned, [0xD800, 0xDFFF], [0xE010, 0xF8FF], [0xF0010, 0x10FFFF]]
      .sort((a, b) => a[0] - b[0]);
  const codePoints = [];
  let next = 0;
  for (const [first, last] of skipped) {
    for (; next < first; ++next) codePoints.push(next);
    next = Math.max(next, last + 1);
  }
  return codePoints;
}

export function ourIds(tool, model, texts) {
  const folder = mkdtempSync(join(tmpdir(), 'thimble-tokenizer-'));
  try {
    const parts = texts.flatMap((text) => {
      const bytes = Buffer.from(text, 'utf8');
      const length = Buffer.alloc(4);
      length.writeUInt32LE(bytes.length);
      return [length, bytes];
    });
    writeFileSync(join(folder, 'texts'), Buffer.concat(parts));
    execFileSync(tool, [model, join(folder, 'texts'), join(folder, 'ids')]);
    const ids = readFileSync(join(folder, 'ids'));
    let at = 0;
    return texts.map(() => {
      const count = ids.readUInt32LE(at);
      const list = new Int32Array(ids.buffer.slice(ids.byteOffset + at + 4,
                                                   ids.byteOffset + at + 4 + 4 * count));
      at += 4 + 4 * count;
      return list;
    });
  } finally {
    rmSync(folder, {recursive: true});
  }
}

function report(text, ours, theirs) {
  let first = 0;
  while (ours[first] === theirs[first]) ++first;
  console.error(`ids differ from index ${first} on:\n  ours   ${ours.slice(first, first + 12)}\n` +
                `  theirs ${theirs.slice(first, first + 12)}`);
  console.error(`  text of ${text.length} characters: ${JSON.stringify(text.slice(0, 200))}`);
}

async function main() {
  const [tool, model] = process.argv.slice(2);
  const reference = await loadReference(model);
  const tokenizer = JSON.parse(readFileSync(model, 'utf8'));
  const texts = [
    '', ' ', ...prose(1.5e6), ...code(2e6),
    ...inventions(tokenizer, assignedCodePoints(tool), kSeed),
  ];
  const ours = ourIds(tool, model, texts);
  let bytes = 0;
  let failed = 0;
  for (const [i, text] of texts.entries()) {
    bytes += Buffer.byteLength(text);
    const theirs = await reference.encode(text);
    const equal = ours[i].length === theirs.length && ours[i].every((id, k) => id === theirs[k]);
    if (!equal && ++failed <= 5) report(text, [...ours[i]], theirs);
  }
  console.log(`${texts.length} texts, ${(bytes / 1e6).toFixed(1)} MB: ${failed} differ`);
  if (bytes < kBytesMin) console.error(`only ${bytes} bytes, expected at least ${kBytesMin}`);
  process.exit(failed > 0 || bytes < kBytesMin ? 1 : 0);
}

await main();
