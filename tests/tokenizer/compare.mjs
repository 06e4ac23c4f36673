// Aim: our ids equal those of Hugging Face `tokenizers` (npm @anush008/tokenizers) for the released
// vocabulary, over several MB of mixed text, with added tokens active.
// Method: both encode the same texts (corpus.mjs); ours through encode_tool. Code points that the
// regex engine's Unicode version does not assign are left out: `encode_tool --unassigned`.
//
//   node compare.mjs ENCODE_TOOL TOKENIZER.json
import {readFileSync} from 'node:fs';

import {code, inventions, prose} from './corpus.mjs';
import {assignedCodePoints, ourIds} from './encode_tool.mjs';
import {loadReference} from './reference.mjs';

const kSeed = 20260910;
const kBytesMin = 4e6;

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
