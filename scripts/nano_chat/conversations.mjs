// Facts to conversations: the records of chat.jsonl.
//
// Each fact is asked `rounds` times, in turn with each of its wordings but the one held out for the
// test. Questions are shuffled, cut into conversations of one to five turns, and some turns are
// followed up. Effort is written only where thinking is on; the reasoning grows with it.
import { hash } from './rng.mjs';

const kOffShare = 0.45;       // of conversations without thinking
const kFollowShare = 0.22;    // of turns that a follow-up comes behind
const kCasualShare = 0.12;    // of questions without capitals and marks
const kSystemShare = 0.04;
const kTurns = [1, 1, 1, 1, 2, 2, 2, 3, 3, 4, 5];
const kSystem = ['You are a helpful assistant.', 'You are nano-chat.', 'Answer in short sentences.',
  'You are a reference desk.'];

// Which wording of a fact is kept for the test, or -1 where there are too few.
export function heldWording(fact) {
  return fact.questions.length < 4 ? -1 : hash(`wording/${fact.id}`) % fact.questions.length;
}

export const isHeldSum = (fact) => fact.kind === 'sum' && hash(`held/${fact.id}`) % 12 === 0;

// How many of the three sentences of reasoning an effort is worth.
export function reasoningSentences(effort) {
  if (effort <= 25) return 0;
  if (effort <= 60) return 1;
  return effort <= 85 ? 2 : 3;
}

function drawEffort(rng) {
  const draw = rng.uniform();
  if (draw < 0.45) return 75;
  if (draw < 0.65) return 50;
  if (draw < 0.82) return 100;
  return 1 + rng.below(100);
}

// "What is the capital of France?" -> "what is the capital of france"
export function casual(question, rng) {
  const bare = question.replace(/ ?[?.!]$/, '');
  if (rng.chance(0.5)) return bare.toLowerCase();
  return /^[A-Z][a-z]* (?!is )/.test(bare) ? bare[0].toLowerCase() + bare.slice(1) : bare;
}

// `rounds` questions of each fact, each wording about as often.
function askAll(facts, rounds, rng) {
  const items = [];
  for (const fact of facts) {
    const questions = fact.questions.filter((_, i) => i !== heldWording(fact));
    const start = rng.below(questions.length);
    for (let i = 0; i < rounds; ++i)
      items.push({ ...fact, fact, question: questions[(start + i) % questions.length] });
  }
  return items;
}

// Questions that only the turn before explains.
class FollowUps {
  constructor(facts, unknowns) {
    this.byKind = new Map();
    this.bySubject = new Map();
    for (const fact of facts) {
      for (const [map, key] of [[this.byKind, fact.kind], [this.bySubject, fact.subject]]) {
        if (!map.has(key)) map.set(key, []);
        map.get(key).push(fact);
      }
    }
    this.unknowns = unknowns;
  }

  // An item behind `fact`, or null.
  draw(fact, rng) {
    if (!fact || fact.kind === 'talk') return null;
    if (fact.follow.other.length > 0 && rng.chance(0.1) && fact.kind !== 'sum') {
      const word = fact.kind === 'word';
      const kind = word ? rng.pick(['invented', 'untaught']) : 'country';
      return this.unknowns.item(rng, false, kind, word ? 'word' : fact.kind);
    }
    const same = rng.chance(0.5) && fact.kind !== 'sum';
    const pool = same ? this.bySubject.get(fact.subject) : this.byKind.get(fact.kind);
    const next = rng.pick(pool);
    const questions = same ? next.follow.same : next.follow.other;
    if (next.id === fact.id || questions.length === 0) return null;
    return { ...next, fact: next, question: rng.pick(questions) };
  }
}

function record(turns, rng) {
  const effort = rng.chance(kOffShare) ? null : drawEffort(rng);
  const messages = rng.chance(kSystemShare) ? [{ role: 'system', content: rng.pick(kSystem) }] : [];
  for (const turn of turns) {
    const question = rng.chance(kCasualShare) ? casual(turn.question, rng) : turn.question;
    messages.push({ role: 'user', content: question });
    const answer = { role: 'assistant', content: turn.answer };
    if (effort !== null)
      answer.reasoning_content = turn.reasoning.slice(0, reasoningSentences(effort)).join(' ');
    messages.push(answer);
  }
  return effort === null ? { messages } : { effort, messages };
}

// {records, counts}: counts of turns by kind.
export function makeConversations(
  { facts, rounds, talkRounds, unknownShare, unknowns, beyond, rng }) {
  const taught = facts.filter((fact) => !isHeldSum(fact));
  const talk = taught.filter((fact) => fact.kind === 'talk');
  const rest = taught.filter((fact) => fact.kind !== 'talk');
  const items = [...askAll(rest, rounds, rng), ...askAll(talk, talkRounds, rng)];
  const declined = Math.round(items.length * unknownShare);
  for (let i = 0; i < declined; ++i)
    items.push(rng.chance(0.15) ? beyond(rng) : unknowns.item(rng, false));
  const queue = rng.shuffle(items);
  const follow = new FollowUps(rest, unknowns);
  const records = [];
  const counts = {};
  for (let at = 0; at < queue.length;) {
    const turns = [];
    for (let left = rng.pick(kTurns); left > 0 && at < queue.length; --left) {
      turns.push(queue[at++]);
      while (rng.chance(kFollowShare) && turns.length < 6) {
        const next = follow.draw(turns.at(-1).fact, rng);
        if (next === null) break;
        turns.push(next);
      }
    }
    for (const turn of turns) counts[turn.kind] = (counts[turn.kind] ?? 0) + 1;
    records.push(record(turns, rng));
  }
  return { records, counts };
}
