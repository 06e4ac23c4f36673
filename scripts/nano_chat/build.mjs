// build.mjs SOURCES OUT [--name value]...: the training data of nano-chat.
//
// Reads the unpacked packages under SOURCES (scripts/nano_chat_data.sh puts them there) and writes
//   chat.jsonl       conversations: {"messages": [...], "effort": N}; no effort, no thinking
//   held.jsonl       the last of them, never trained, for the held-out loss
//   text.jsonl       plain text: {"text": "..."}
//   tokenizer.txt    both as text, a record a line, with the words of the chat format
//   eval.jsonl       questions and expected answers (nano_chat_score.mjs)
//   summary.json     options, facts, turns, sizes
// The same options give the same bytes.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { readAusten } from './austen.mjs';
import { makeConversations } from './conversations.mjs';
import { makeEvaluation } from './evaluation.mjs';
import { readFactbook } from './factbook.mjs';
import { countryFacts, wordFact } from './facts.mjs';
import { makeText } from './plain_text.mjs';
import { Rng } from './rng.mjs';
import { sumFacts } from './sums.mjs';
import { beyondItem, talkFacts } from './talk.mjs';
import { Unknowns } from './unknown.mjs';
import { readWordNet } from './wordnet.mjs';

export const kDefaults = {
  seed: 1,
  words: 2500,           // defined; the commonest that have a short gloss
  rounds: 8,             // how often each fact is asked
  talk_rounds: 60,       // how often each greeting and the like is
  unknown_percent: 30,   // questions to decline, for each hundred others
  examples_chars: 400_000,
  prose_chars: 300_000,
};
const kHeldConversations = 200;
const kSources = { wordnet: 'wordnet', factbook: 'factbook', austen: 'austen.rdb' };

function parseOptions(args) {
  const options = { ...kDefaults };
  for (let i = 0; i < args.length; i += 2) {
    const name = args[i].replace(/^--/, '').replace(/-/g, '_');
    const value = Number(args[i + 1]);
    if (!(name in options) || !Number.isInteger(value) || value < 0) {
      const names = Object.keys(kDefaults).map((n) => `--${n.replace(/_/g, '-')}`).join(' ');
      throw new Error(`"${args[i]} ${args[i + 1]}": expected a whole number for one of ${names}`);
    }
    options[name] = value;
  }
  return options;
}

// About as many tokens as a byte-pair vocabulary of some thousands gives: a long word is two.
function estimateTokens(texts) {
  let count = 0;
  for (const text of texts) {
    for (const piece of text.match(/\d{1,3}|[\p{L}\p{M}]+|[^\s\p{L}\d]+/gu) ?? [])
      count += Math.ceil(piece.length / 8);
  }
  return count;
}

const kEffortLine = (n) => `Reasoning Effort: ${n} (range 1-100, the higher the value, `
  + 'the more thorough the reasoning)';

// What a tokenizer should see: a conversation's texts in a row.
function asLine({ effort, messages, text }) {
  if (text !== undefined) return text;
  const said = messages.flatMap((m) => [m.reasoning_content ?? '', m.content]);
  return (effort === undefined ? said : [kEffortLine(effort), ...said]).filter(Boolean).join(' ');
}

function countBy(list, key) {
  const out = {};
  for (const item of list) out[key(item)] = (out[key(item)] ?? 0) + 1;
  return out;
}

export function buildData(sources, options) {
  const { seed } = options;
  const { words, others, examples } = readWordNet(join(sources, kSources.wordnet), options.words);
  const countries = readFactbook(join(sources, kSources.factbook));
  const wordFacts = words.map(wordFact);
  const perCountry = countries.map(countryFacts);
  const sums = sumFacts();
  const facts = [...wordFacts, ...perCountry.flat(), ...sums, ...talkFacts()];
  const taken = new Set([...others, ...words.map((w) => w.word),
    ...countries.map((c) => c.name.toLowerCase())]);
  const unknowns = new Unknowns(others, taken);
  const things = [...countries.map((c) => c.name), ...words.filter((w) => w.part === 'noun')
    .map((w) => w.word)];
  const chat = makeConversations({
    facts, rounds: options.rounds, talkRounds: options.talk_rounds,
    unknownShare: options.unknown_percent / 100, unknowns,
    beyond: (rng) => beyondItem(rng, things), rng: new Rng(seed, 'chat'),
  });
  const text = makeText({
    words: words.map((w, i) => ({ ...w, sentence: wordFacts[i].sentence })),
    countries: perCountry.map((list) => list.map((fact) => fact.sentence)), sums, examples,
    prose: readAusten(join(sources, kSources.austen)),
    caps: { examples: options.examples_chars, prose: options.prose_chars },
    rng: new Rng(seed, 'text'),
  });
  // Independent of the seed and of `rounds`, so that runs can be compared.
  const evaluation = makeEvaluation({
    facts, unknowns, rng: new Rng(0, 'eval'),
    sizes: { trained: 200, wording: 100, unknown: 100, effort: 30 },
  });
  return { facts, chat, text, evaluation };
}

function summarise(options, { facts, chat, text, evaluation }) {
  const effortTokens = estimateTokens([kEffortLine(75)]);
  const perRecord = (r) => 1 + 3 * r.messages.length / 2 + (r.effort ? 1 + effortTokens : 0);
  const said = chat.records.map((r) => asLine({ messages: r.messages }));
  return {
    options,
    facts: countBy(facts, (fact) => fact.kind),
    conversations: chat.records.length,
    turns: chat.counts,
    texts: text.records.length,
    text_chars: text.counts,
    estimated_tokens: {
      chat: estimateTokens(said)
        + Math.round(chat.records.reduce((sum, r) => sum + perRecord(r), 0)),
      text: estimateTokens(text.records.map((r) => r.text)) + 2 * text.records.length,
    },
    evaluation: countBy(evaluation, (item) => item.kind),
  };
}

function main([sources, out, ...rest]) {
  if (!out) throw new Error('usage: build.mjs SOURCES OUT [--name value]...');
  const options = parseOptions(rest);
  const data = buildData(sources, options);
  const summary = summarise(options, data);
  const lines = (records) => records.map((r) => `${JSON.stringify(r)}\n`).join('');
  mkdirSync(out, { recursive: true });
  const trained = Math.max(data.chat.records.length - kHeldConversations, 1);
  writeFileSync(join(out, 'chat.jsonl'), lines(data.chat.records.slice(0, trained)));
  writeFileSync(join(out, 'held.jsonl'), lines(data.chat.records.slice(trained)));
  writeFileSync(join(out, 'text.jsonl'), lines(data.text.records));
  writeFileSync(join(out, 'eval.jsonl'), lines(data.evaluation));
  writeFileSync(join(out, 'tokenizer.txt'),
    [...data.chat.records, ...data.text.records].map((r) => `${asLine(r)}\n`).join(''));
  writeFileSync(join(out, 'summary.json'), `${JSON.stringify(summary, null, 2)}\n`);
  console.log(JSON.stringify(summary, null, 2));
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  try {
    main(process.argv.slice(2));
  } catch (error) {
    console.error(`nano_chat: ${error.message}`);
    process.exitCode = 1;
  }
}
