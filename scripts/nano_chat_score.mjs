#!/usr/bin/env node
// nano_chat_score.mjs URL EVAL_JSONL [--effort E] [--limit N] [--out FILE] [--json]
//
// Asks a served model (`thimble serve`, or anything that speaks OpenAI's chat API) the questions of
// eval.jsonl at temperature 0 and counts right answers by kind. "exact": the answer is an expected
// one, character for character. "abstain": the answer says that it does not know. Questions without
// an effort of their own are asked at E (default none). --limit asks at most N of a kind; --out
// keeps each question with its answer.
import { readFileSync, writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const kMaxTokens = 160;
const kAtOnce = 2;

export function isRight(question, answer) {
  if (question.match === 'abstain') return /\bdo not know\b/.test(answer);
  return question.answers.includes(answer.trim());
}

// What was asked, and what came back: {content, reasoning, ended}.
async function ask(url, question, effort) {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'nano-chat', messages: question.messages, temperature: 0, max_tokens: kMaxTokens,
      reasoning_effort: question.effort ?? effort,
    }),
  });
  const body = await response.json();
  if (!response.ok) throw new Error(`${response.status}: ${body?.error?.message ?? 'no message'}`);
  const { message, finish_reason: reason } = body.choices[0];
  return {
    content: message.content ?? '', reasoning: message.reasoning_content ?? '',
    ended: reason === 'stop',
  };
}

// [{kind, asked, right, share, ended, reasoning_chars}] in the order of first appearance, and a
// line over all kinds that begin with "trained".
export function tally(results) {
  const rows = new Map();
  const add = (kind, { right, answer }) => {
    if (!rows.has(kind)) rows.set(kind, { kind, asked: 0, right: 0, ended: 0, reasoning_chars: 0 });
    const row = rows.get(kind);
    row.asked += 1;
    row.right += right ? 1 : 0;
    row.ended += answer.ended ? 1 : 0;
    row.reasoning_chars += answer.reasoning.length;
  };
  for (const result of results) add(result.question.kind, result);
  for (const result of results.filter((r) => r.question.kind.startsWith('trained ')))
    add('all trained', result);
  return [...rows.values()].map((row) => ({
    ...row, share: row.right / row.asked, reasoning_chars: row.reasoning_chars / row.asked,
  }));
}

export function table(rows) {
  const cells = rows.map((row) => [row.kind, String(row.asked), String(row.right),
    `${(100 * row.share).toFixed(1)} %`, String(row.ended), row.reasoning_chars.toFixed(1)]);
  const head = ['kind', 'asked', 'right', 'share', 'ended', 'reasoning chars'];
  const widths = head.map((h, i) => Math.max(h.length, ...cells.map((c) => c[i].length)));
  const line = (c) => c.map((text, i) => (i === 0 ? text.padEnd(widths[i])
    : text.padStart(widths[i]))).join('  ');
  return [head, ...cells].map(line).join('\n');
}

function parse(args) {
  const options = { effort: 'none', limit: Infinity, out: null, json: false, paths: [] };
  for (let i = 0; i < args.length; ++i) {
    if (args[i] === '--json') options.json = true;
    else if (args[i] === '--effort') options.effort = args[++i];
    else if (args[i] === '--limit') options.limit = Number(args[++i]);
    else if (args[i] === '--out') options.out = args[++i];
    else options.paths.push(args[i]);
  }
  if (/^\d+$/.test(options.effort)) options.effort = Number(options.effort);
  if (options.paths.length !== 2 || Number.isNaN(options.limit))
    throw new Error('usage: nano_chat_score.mjs URL EVAL_JSONL [--effort E] [--limit N] '
      + '[--out FILE] [--json]');
  return options;
}

async function main(args) {
  const options = parse(args);
  const [url, file] = options.paths;
  const asked = new Map();
  const questions = readFileSync(file, 'utf8').split('\n').filter(Boolean).map((l) => JSON.parse(l))
    .filter(({ kind }) => {
      asked.set(kind, (asked.get(kind) ?? 0) + 1);
      return asked.get(kind) <= options.limit;
    });
  const results = new Array(questions.length);
  let next = 0;
  const work = async () => {
    while (next < questions.length) {
      const at = next++;
      const question = questions[at];
      const answer = await ask(url.replace(/\/$/, ''), question, options.effort);
      results[at] = { question, answer, right: isRight(question, answer.content) };
      if (process.stderr.isTTY) process.stderr.write(`\r${at + 1}/${questions.length} `);
    }
  };
  await Promise.all(Array.from({ length: kAtOnce }, work));
  if (process.stderr.isTTY) process.stderr.write('\r\x1b[K');
  const rows = tally(results);
  if (options.out)
    writeFileSync(options.out, results.map((r) => `${JSON.stringify(r)}\n`).join(''));
  const { effort } = options;
  console.log(options.json ? JSON.stringify({ effort, rows }, null, 2) : table(rows));
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  main(process.argv.slice(2)).catch((error) => {
    console.error(`nano_chat_score: ${error.message}`);
    process.exitCode = 1;
  });
}
