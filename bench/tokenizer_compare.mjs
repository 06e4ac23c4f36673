// Encoding speed beside Hugging Face `tokenizers` (npm @anush008/tokenizers), both in one run.
// Needs `make deps-test` and the preset `bench`. That both give the same ids is a test of its own,
// tests/tokenizer/compare.mjs.
//
//   node bench/tokenizer_compare.mjs [BUILD_DIR, default build/bench]
//
// Prints a JSON line for each kind of text: MB/s of processor time on one thread, best of
// several passes.
import {execFileSync} from 'node:child_process';
import {mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join, resolve} from 'node:path';

import {code, inventions, prose} from '../tests/tokenizer/corpus.mjs';
import {loadReference} from '../tests/tokenizer/reference.mjs';
import {releasedTokenizer} from '../tests/tokenizer/vocabulary.mjs';

const kPasses = 3;
const kChunk = 64 << 10;

async function referenceSpeed(reference, texts, megabytes) {
  let best = Infinity;
  for (let pass = 0; pass < kPasses; ++pass) {
    const begin = process.cpuUsage();
    // Encoding alone: asking for the ids would also copy them to JavaScript.
    for (const text of texts) await reference.encodeOnly(text);
    const used = process.cpuUsage(begin);
    best = Math.min(best, (used.user + used.system) / 1e6);
  }
  return megabytes / best;
}

// Chunks of kChunk bytes of ASCII-safe cuts, so that both sides see the same texts.
function chunks(text) {
  const parts = [];
  for (let at = 0; at < text.length; at += kChunk) parts.push(text.slice(at, at + kChunk));
  return parts.map((part) => Buffer.from(part, 'utf8').toString('utf8'));
}

async function main() {
  const bench = join(resolve(process.argv[2] ?? 'build/bench'), 'bin', 'tokenizer_bench');
  const folder = mkdtempSync(join(tmpdir(), 'thimble-bench-'));
  try {
    const tokenizer = releasedTokenizer();
    const model = join(folder, 'tokenizer.json');
    writeFileSync(model, JSON.stringify(tokenizer));
    const reference = await loadReference(model);
    const kinds = {
      prose: prose(1e6).join(''),
      code: code(3e6).join(''),
      many_scripts: inventions(tokenizer, [0x61], 7).slice(1, 120).join('\n'),
    };
    for (const [kind, text] of Object.entries(kinds)) {
      const file = join(folder, kind);
      writeFileSync(file, text);
      const megabytes = Buffer.byteLength(text) / 1e6;
      const ours = JSON.parse(execFileSync(bench, [model, file], {encoding: 'utf8'}));
      const theirs = await referenceSpeed(reference, chunks(text), megabytes);
      console.log(JSON.stringify({
        ...ours, reference_encode_mb_per_s: Number(theirs.toFixed(1)),
        ratio: Number((ours.encode_mb_per_s / theirs).toFixed(1)),
      }));
    }
  } finally {
    rmSync(folder, {recursive: true});
  }
}

await main();
