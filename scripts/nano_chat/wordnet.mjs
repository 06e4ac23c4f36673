// WordNet's database files to the commonest words, each with one short gloss.
//
// Common is what its tagged texts count most (cntlist.rev). A word gets the gloss of its most
// frequent sense, cut at the first clause that makes it short; where that cannot be, the next sense
// is tried, and a word without a short gloss is left out.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const kPartFiles = { noun: 'noun', verb: 'verb', adjective: 'adj', adverb: 'adv' };
const kPartOfDigit = { 1: 'noun', 2: 'verb', 3: 'adjective', 4: 'adverb', 5: 'adjective' };
export const kGlossWords = 11;
const kUnwanted = new RegExp('offensive|obscene|sexual|disparag|slang|derogat|vulgar|ethnic|'
  + 'genital|prostitut|excrement|slur|intercourse|Negro|breast|suicide|racial|Jewish', 'i');

function lines(folder, name) {
  return readFileSync(join(folder, name), 'latin1').split('\n');
}

// word -> part of speech -> offsets of its synsets, first sense first.
function readIndex(folder) {
  const index = new Map();
  for (const [part, file] of Object.entries(kPartFiles)) {
    for (const line of lines(folder, `index.${file}`)) {
      const fields = line.trim().split(' ');
      if (!/^[a-z]{2,}$/.test(fields[0]) || line.startsWith(' ')) continue;
      const count = Number(fields[2]);
      const offsets = fields.slice(fields.length - count).map(Number);
      if (!index.has(fields[0])) index.set(fields[0], {});
      index.get(fields[0])[part] = offsets;
    }
  }
  return index;
}

// word -> [{part, sense, count}], the most frequent first.
function readCounts(folder) {
  const counts = new Map();
  for (const line of lines(folder, 'cntlist.rev')) {
    const match = line.match(/^([a-z]{2,})%(\d)\S* (\d+) (\d+)/);
    if (!match) continue;
    const [, word, digit, sense, count] = match;
    if (!counts.has(word)) counts.set(word, []);
    counts.get(word).push(
      { part: kPartOfDigit[digit], sense: Number(sense), count: Number(count) });
  }
  for (const senses of counts.values()) senses.sort((a, b) => b.count - a.count);
  return counts;
}

// "a member of the genus Canis (probably ...) that has ...; occurs ...; "the dog barked"" to its
// first clause without brackets.
function firstClause(gloss) {
  const open = gloss.replace(/\s*\([^)]*\)/g, '');
  return open.split(/[;"]/)[0].split(/\s--?\s/)[0].replace(/\s+/g, ' ').trim()
    .replace(/[,:]$/, '');
}

// Where a gloss may end early, for what follows only narrows it.
const kCuts = [', ', ' that ', ' which ', ' who ', ' whose ', ' especially ', ' usually ',
  ' such as ', ' when ', ' where ', ' so that ', ' with '];
const kDangling = new RegExp('^(of|to|a|an|the|in|with|for|by|on|at|from|or|and|as|into|being|some|'
  + 'any|is|are|not|having|one|used|characterized|marked|either)$');

// At most kGlossWords words that can stand alone, or null.
export function shortGloss(gloss) {
  let clause = firstClause(gloss);
  while (clause.split(' ').length > kGlossWords) {
    const cut = Math.max(...kCuts.map((mark) => clause.lastIndexOf(mark)));
    if (cut < 0) return null;
    clause = clause.slice(0, cut).replace(/,$/, '');
    if (clause.split(' ').length < 3) return null;
  }
  if (kDangling.test(clause.split(' ').at(-1))) return null;
  return /^[A-Za-z][A-Za-z ,'-]*$/.test(clause) ? clause : null;
}

// The sentences in quotes behind a gloss, as sentences.
function examplesOf(gloss) {
  return [...gloss.matchAll(/"([^"]{12,90})"/g)].map((m) => m[1].trim())
    .filter((text) => /^[A-Za-z][A-Za-z ,'-]*[A-Za-z.!?]$/.test(text))
    .filter((text) => text.split(' ').length >= 4)
    .map((text) => text[0].toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? '' : '.'));
}

class Synsets {
  constructor(folder) {
    this.files = {};
    for (const [part, file] of Object.entries(kPartFiles))
      this.files[part] = readFileSync(join(folder, `data.${file}`));
  }

  // {words, gloss} at a byte offset.
  at(part, offset) {
    const file = this.files[part];
    const line = file.toString('latin1', offset, file.indexOf(10, offset));
    const bar = line.indexOf(' | ');
    const fields = line.slice(0, bar).split(' ');
    const words = [];
    for (let i = 0; i < parseInt(fields[3], 16); ++i) words.push(fields[4 + 2 * i]);
    return { words: words.map((w) => w.replace(/\(.*\)$/, '')), gloss: line.slice(bar + 3).trim() };
  }
}

// The definition of a word, or null: {word, part, gloss, examples}.
function define(word, senses, index, synsets) {
  for (const { part, sense, count } of senses) {
    if (2 * count < senses[0].count) break;
    const offset = index.get(word)?.[part]?.[sense - 1];
    if (offset === undefined) continue;
    const { words, gloss } = synsets.at(part, offset);
    // In capitals it is a name.
    if (!words.includes(word) || kUnwanted.test(gloss)) return null;
    let short = shortGloss(gloss);
    // "to save from ruin" says nothing about "save".
    if (short === null || short.split(/[ ,'-]+/).includes(word)) continue;
    if (part === 'verb' && !short.startsWith('to ')) short = `to ${short}`;
    return { word, part, gloss: short, examples: examplesOf(gloss) };
  }
  return null;
}

// {words, others, examples}: the `limit` commonest words that can be defined, commonest first; all
// other words, in the alphabet's order; the example sentences of common words, commonest first.
export function readWordNet(folder, limit) {
  const index = readIndex(folder);
  const synsets = new Synsets(folder);
  const total = (senses) => senses.reduce((sum, s) => sum + s.count, 0);
  const ranked = [...readCounts(folder)].sort(
    ([a, left], [b, right]) => total(right) - total(left) || (a < b ? -1 : 1));
  const words = [];
  const examples = [];
  for (const [word, senses] of ranked) {
    if (word.length < 3) continue;
    const definition = define(word, senses, index, synsets);
    if (!definition) continue;
    if (words.length < limit) words.push(definition);
    examples.push(...definition.examples);
  }
  const taught = new Set(words.map((w) => w.word));
  const others = [...index.keys()].filter((w) => !taught.has(w) && w.length <= 10).sort();
  return { words, others, examples: [...new Set(examples)] };
}
