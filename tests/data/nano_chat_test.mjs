// Aim: nano-chat's training data say what the sources say, keep the test's questions out, and are
// the same twice. Method: a toy WordNet, Factbook and R file of our own in fixture/, built in
// memory, and a server that answers as told for the scorer.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { readAusten } from '../../scripts/nano_chat/austen.mjs';
import { buildData, kDefaults } from '../../scripts/nano_chat/build.mjs';
import { casual, heldWording, isHeldSum, reasoningSentences }
  from '../../scripts/nano_chat/conversations.mjs';
import { languagesOf, readFactbook, roundNumber } from '../../scripts/nano_chat/factbook.mjs';
import { Rng } from '../../scripts/nano_chat/rng.mjs';
import { sumFacts } from '../../scripts/nano_chat/sums.mjs';
import { isHeldOut } from '../../scripts/nano_chat/unknown.mjs';
import { kGlossWords, readWordNet, shortGloss } from '../../scripts/nano_chat/wordnet.mjs';

const fixture = fileURLToPath(new URL('fixture', import.meta.url));
const options = { ...kDefaults, words: 4, rounds: 12, talk_rounds: 4 };
const data = buildData(fixture, options);
const scratch = mkdtempSync(join(tmpdir(), 'thimble-data-'));
after(() => rmSync(scratch, { recursive: true, force: true }));

const turnsOf = (record) => record.messages.filter((m) => m.role === 'assistant');
const questionsOf = (record) => record.messages.filter((m) => m.role === 'user')
  .map((m) => m.content);

test('WordNet: the commonest words with the first clause of their first sense; no names', () => {
  const { words, others, examples } = readWordNet(join(fixture, 'wordnet'), 4);
  assert.deepEqual(words.map((w) => [w.word, w.part, w.gloss]), [
    ['large', 'adjective', 'above average in size'],
    ['dog', 'noun', 'a tame animal that barks'],
    ['river', 'noun', 'a large natural stream of water'],
    ['walk', 'verb', 'to use one\'s feet to advance'],
  ]);
  assert.ok(others.includes('galaxy') && others.includes('often') && !others.includes('dog'));
  assert.deepEqual(examples.slice(0, 2), ['A large house on a hill.', 'The dog barked all night.']);
});

test('a long gloss ends at a clause that can stand alone, or is given up', () => {
  const long = 'a vessel made of fired clay with a narrow neck that was carried on a pole';
  assert.equal(shortGloss(long), 'a vessel made of fired clay with a narrow neck');
  assert.equal(shortGloss('any of the very many '.repeat(3)), null);
  assert.ok(data.facts.filter((f) => f.kind === 'word').every(
    (f) => f.answer.split(' ').length <= kGlossWords + 6));
});

test('Factbook: independent countries, rounded, with the borders either side lists', () => {
  assert.deepEqual(readFactbook(join(fixture, 'factbook')), [
    { name: 'Aland', capital: 'Alma', population: '12 million', area: '1,200', languages: ['Alish'],
      currency: 'Alish crowns', location: 'Western Europe', borders: ['Beland', 'Cela'] },
    { name: 'Beland', capital: 'Bem', population: '810,000', area: '88,000',
      languages: ['Belish', 'Alish'], currency: 'euros', location: 'Western Europe',
      borders: ['Aland'] },
    { name: 'Cela', capital: 'Cel', population: '1.4 million', area: '1.3 million',
      languages: ['Celan'], currency: 'US dollars', location: 'Western Europe',
      borders: ['Aland'] },
  ]);
  assert.equal(roundNumber(1251695584), '1.3 billion');
  assert.equal(roundNumber(0.44), '0.44');
  assert.equal(roundNumber(9999), '10,000');
  assert.deepEqual(languagesOf('Setswana 78.2%, English (official) 2.1%'), ['English']);
});

test('Austen: paragraphs out of R\'s lazy-load file', () => {
  const paragraphs = readAusten(join(fixture, 'austen.rdb'));
  assert.equal(paragraphs.length, 2);
  assert.match(paragraphs[0], /^It was a bright morning .* the market was closed\.$/);
  assert.match(paragraphs[1], /^"You must come .* mill\."$/);
});

test('sums are right, in the answer and in each step', () => {
  const apply = { '+': (a, b) => a + b, '-': (a, b) => a - b, 'x': (a, b) => a * b };
  let steps = 0;
  for (const fact of sumFacts()) {
    for (const text of [fact.answer, ...fact.reasoning]) {
      for (const [, a, sign, b, c] of text.matchAll(/(\d+) ([+x-]) (\d+) = (\d+)/g)) {
        assert.equal(apply[sign](Number(a), Number(b)), Number(c), text);
        ++steps;
      }
    }
  }
  assert.ok(steps > 2500);
});

test('the same options give the same data, another seed gives others', () => {
  assert.deepEqual(buildData(fixture, options), data);
  assert.notDeepEqual(buildData(fixture, { ...options, seed: 2 }).chat.records, data.chat.records);
  assert.deepEqual(buildData(fixture, { ...options, seed: 2 }).evaluation, data.evaluation);
});

test('reasoning stands where there is an effort, and grows with it', () => {
  const lengths = new Map();
  for (const record of data.chat.records) {
    for (const turn of turnsOf(record)) {
      assert.equal('reasoning_content' in turn, 'effort' in record);
      if (!('effort' in record)) continue;
      const sentences = reasoningSentences(record.effort);
      assert.equal(turn.reasoning_content === '', sentences === 0);
      lengths.set(sentences, [...lengths.get(sentences) ?? [], turn.reasoning_content.length]);
    }
  }
  const mean = (list) => list.reduce((a, b) => a + b) / list.length;
  const means = [0, 1, 2, 3].map((n) => mean(lengths.get(n)));
  assert.ok(means[0] < means[1] && means[1] < means[2] && means[2] < means[3], String(means));
});

test('turns alternate, and each answer is one that the facts or a refusal give', () => {
  const answers = new Set([...data.facts.map((f) => f.answer), 'I do not know that word.',
    'I do not know that country.', 'That sum is too large for me.',
    'I do not know that. I know words, countries and small sums.']);
  for (const { messages } of data.chat.records) {
    const talk = messages.filter((m) => m.role !== 'system');
    talk.forEach((m, i) => assert.equal(m.role, i % 2 === 0 ? 'user' : 'assistant'));
    for (const turn of turnsOf({ messages })) assert.ok(answers.has(turn.content), turn.content);
  }
});

test('held-out wordings, sums and names are never trained; what is asked as trained was', () => {
  const asked = new Set(data.chat.records.flatMap(questionsOf).map((q) => q.toLowerCase()));
  const bare = new Set([...asked].map((q) => casual(q, { chance: () => true })));
  const seen = (q) => asked.has(q.toLowerCase()) || bare.has(casual(q, { chance: () => true }));
  for (const fact of data.facts) {
    const held = heldWording(fact);
    if (held >= 0) assert.ok(!seen(fact.questions[held]), fact.questions[held]);
    if (isHeldSum(fact)) assert.ok(!fact.questions.some(seen), fact.id);
  }
  const kinds = new Set();
  for (const item of data.evaluation) {
    const question = item.messages.at(-1).content;
    kinds.add(item.kind);
    if (/^trained (word|country|sum)$/.test(item.kind)) assert.ok(seen(question), question);
    if (/^(new|un)/.test(item.kind)) assert.ok(!seen(question), question);
    if (item.kind === 'unknown country')
      assert.ok(question.match(/\b[A-Z]\w+/g).some(isHeldOut), question);
  }
  for (const kind of ['new sum', 'follow-up', 'unknown word', 'effort none', 'effort 100'])
    assert.ok(kinds.has(kind), kind);
});

test('plain text is capped and holds every fact', () => {
  const all = data.text.records.map((r) => r.text).join('\n');
  for (const fact of data.facts.filter((f) => f.kind !== 'talk'))
    assert.ok(all.includes(fact.sentence), fact.sentence);
  const none = buildData(fixture, { ...options, prose_chars: 0 });
  assert.equal(none.text.counts.prose, 0);
});

test('random streams of different labels differ, and a shuffle keeps what it shuffles', () => {
  assert.notEqual(new Rng(1, 'a').uniform(), new Rng(1, 'b').uniform());
  assert.deepEqual(new Rng(1, 'a').shuffle([1, 2, 3, 4, 5]).sort(), [1, 2, 3, 4, 5]);
});

// The scorer's output for a server that answers with `reply(question, request)`.
async function score(questions, reply, ...flags) {
  const requests = [];
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    const parsed = JSON.parse(body);
    requests.push(parsed);
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ choices: [{ finish_reason: 'stop',
      message: { content: reply(parsed.messages.at(-1).content), reasoning_content: 'Hm.' } }] }));
  });
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  const file = join(scratch, 'eval.jsonl');
  writeFileSync(file, questions.map((q) => `${JSON.stringify(q)}\n`).join(''));
  const script = fileURLToPath(new URL('../../scripts/nano_chat_score.mjs', import.meta.url));
  const child = spawn(process.execPath,
    [script, `http://127.0.0.1:${server.address().port}`, file, ...flags]);
  let out = '';
  child.stdout.on('data', (bytes) => { out += bytes; });
  const status = await new Promise((resolve) => { child.on('close', resolve); });
  server.close();
  return { out, status, requests };
}

const ask = (content) => [{ role: 'user', content }];
const questions = [
  { kind: 'trained word', match: 'exact', messages: ask('a'), answers: ['A.'] },
  { kind: 'trained word', match: 'exact', messages: ask('b'), answers: ['B.'] },
  { kind: 'unknown word', match: 'abstain', messages: ask('c'),
    answers: ['I do not know that word.'], effort: 50 },
];

test('the scorer counts exact answers and abstentions by kind', async () => {
  const replies = { a: 'A.', b: 'B', c: 'Sorry, I do not know it.' };
  const { out, status, requests } = await score(questions, (q) => replies[q], '--json');
  assert.equal(status, 0);
  const rows = Object.fromEntries(JSON.parse(out).rows.map((r) => [r.kind, r]));
  assert.deepEqual([rows['trained word'].right, rows['trained word'].asked], [1, 2]);
  assert.equal(rows['all trained'].share, 0.5);
  assert.equal(rows['unknown word'].right, 1);
  assert.equal(rows['unknown word'].reasoning_chars, 3);
  assert.ok(requests.every((r) => r.temperature === 0));
  assert.deepEqual(requests.map((r) => r.reasoning_effort).sort(), [50, 'none', 'none']);
});

test('the scorer prints a table, and fails without a file', async () => {
  const { out } = await score(questions, () => 'A.', '--limit', '1');
  assert.match(out, /^trained word +1 +1 +100\.0 %/m);
  assert.match(out, /^unknown word +1 +0 +0\.0 %/m);
  assert.notEqual((await score(questions, () => 'A.', 'one too many')).status, 0);
});
