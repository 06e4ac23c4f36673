// The records of text.jsonl: the same facts, and English around them, as plain text.
import { capitalised } from './facts.mjs';

const joined = (list, size) => {
  const out = [];
  for (let i = 0; i < list.length; i += size) out.push(list.slice(i, i + size).join(' '));
  return out;
};

// The first texts that together are at most `chars` long.
function capped(texts, chars) {
  let used = 0;
  return texts.filter((text) => (used += text.length) <= chars);
}

// {records, counts}: counts of characters by source. `caps` bound what no question asks about.
export function makeText({ words, countries, sums, examples, prose, caps, rng }) {
  const parts = {
    words: words.map((w) => [w.sentence, `It is ${/^a/.test(w.part) ? 'an' : 'a'} ${w.part}.`,
      ...w.examples.slice(0, 2)].join(' ')),
    countries: countries.flatMap((sentences) => [rng.shuffle(sentences).join(' '),
      rng.shuffle(sentences).join(' ')]),
    sums: joined(rng.shuffle(sums.map((sum) => sum.sentence)), 8),
    examples: capped(joined(rng.shuffle(examples), 3), caps.examples),
    prose: capped(rng.shuffle(prose), caps.prose),
  };
  const counts = {};
  for (const [name, texts] of Object.entries(parts))
    counts[name] = texts.reduce((sum, text) => sum + text.length, 0);
  const records = Object.values(parts).flat().map((text) => ({ text: capitalised(text) }));
  return { records: rng.shuffle(records), counts };
}
