// A conversation as data: turns that each name the turn before them, and the turn at which the
// reader is. An edited question or a second answer is a further child of the same parent, so
// nothing is ever replaced. Nothing here touches the page or its storage.
//
//   chat: {v, id, title, named, created, changed, head, turns}
//   turn: {id, parent, role, at, content, ...}
//     assistant: reasoning, calls [{id, name, arguments}], end, problem, stats
//     tool: call (the id of the call it answers), name

export const kVersion = 1;
const kTitleLength = 60;

// crypto.randomUUID() would need https or localhost.
export function randomId() {
  const bytes = crypto.getRandomValues(new Uint8Array(9));
  return btoa(String.fromCharCode(...bytes)).replaceAll('+', '-').replaceAll('/', '_');
}

export function newChat() {
  const now = Date.now();
  return {
    v: kVersion, id: randomId(), title: '', named: false, created: now, changed: now, head: null,
    turns: [],
  };
}

export const find = (chat, id) => chat.turns.find((turn) => turn.id === id);

// Adds a turn under `parent` (null: a first one) and goes there.
export function addTurn(chat, parent, fields) {
  // A clock that was set back must not put a turn before its parent.
  const at = Math.max(Date.now(), chat.turns.at(-1)?.at ?? 0);
  const turn = { id: randomId(), parent, at, content: '', ...fields };
  chat.turns.push(turn);
  chat.head = turn.id;
  if (!chat.title && turn.role === 'user') chat.title = titleOf(turn.content);
  return turn;
}

// The turns from the first to where the reader is.
export function path(chat, head = chat.head) {
  const byId = new Map(chat.turns.map((turn) => [turn.id, turn]));
  const found = [];
  for (let at = byId.get(head); at; at = byId.get(at.parent)) found.unshift(at);
  return found;
}

export const versions = (chat, turn) =>
  chat.turns.filter((other) => other.parent === turn.parent && other.role === turn.role);

// Goes to another version of a turn, and from there to what came of it last.
export function choose(chat, turn) {
  let at = turn;
  while (true) {
    const next = chat.turns.findLast((other) => other.parent === at.id);
    if (!next) break;
    at = next;
  }
  chat.head = at.id;
}

// Takes out a turn that holds nothing anybody could miss; one that something followed stays.
export function dropTurn(chat, turn) {
  if (chat.turns.some((other) => other.parent === turn.id)) return;
  chat.turns = chat.turns.filter((other) => other !== turn);
  if (chat.head === turn.id) chat.head = turn.parent;
}

export const isEmpty = (turn) => !turn.content && !turn.reasoning && !turn.calls?.length;

export function titleOf(text) {
  const line = text.trim().split('\n')[0].replace(/\s+/g, ' ');
  return line.length > kTitleLength ? `${line.slice(0, kTitleLength - 1).trimEnd()}…` : line;
}

const length = (turn) => turn.content.length + (turn.reasoning?.length ?? 0);

// Of one turn as two tabs have it: the one that is complete, else the longer one.
function better(a, b) {
  if (Boolean(a.end) !== Boolean(b.end)) return a.end ? a : b;
  return length(a) >= length(b) ? a : b;
}

// `ours` with every turn that only `theirs` has.
export function merge(ours, theirs) {
  const byId = new Map(theirs.turns.map((turn) => [turn.id, turn]));
  for (const turn of ours.turns) {
    const other = byId.get(turn.id);
    byId.set(turn.id, other ? better(turn, other) : turn);
  }
  // So parents stay before their children.
  ours.turns = [...byId.values()].sort((a, b) => a.at - b.at);
  if (theirs.changed > ours.changed && theirs.named) {
    ours.title = theirs.title;
    ours.named = true;
  }
  ours.created = Math.min(ours.created, theirs.created);
}

const is = {
  text: (value) => typeof value === 'string',
  id: (value) => typeof value === 'string' && /^[\w-]{1,64}$/.test(value),
  count: (value) => Number.isFinite(value),
  object: (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
};

const isCall = (call) =>
  is.object(call) && is.text(call.id) && is.text(call.name) && is.text(call.arguments);

function checkTurn(turn, place, earlier) {
  const wrong = (what) => { throw new Error(`turn ${place + 1}: ${what}`); };
  if (!is.object(turn)) wrong('not an object');
  if (!is.id(turn.id) || earlier.has(turn.id)) wrong('no id of its own');
  if (turn.parent !== null && !earlier.has(turn.parent)) wrong('its parent is not there');
  if (!['user', 'assistant', 'tool'].includes(turn.role)) wrong('an unknown role');
  if (!is.text(turn.content)) wrong('no text');
  if (!is.count(turn.at)) wrong('no time');
  if (!is.text(turn.reasoning ?? '')) wrong('reasoning that is no text');
  if (!is.text(turn.call ?? '') || !is.text(turn.name ?? '')) wrong('a call that is no text');
  if (!Array.isArray(turn.calls ?? []) || !(turn.calls ?? []).every(isCall)) wrong('broken calls');
  if (!is.object(turn.stats ?? {}) || !is.object(turn.problem ?? {})) wrong('broken figures');
  if (!Object.values(turn.stats ?? {}).every((x) => is.count(x) || typeof x === 'boolean')) {
    wrong('figures that are no numbers');
  }
}

// A conversation from its JSON, or an error that says what is wrong with it.
export function parseChat(text) {
  return checkChat(JSON.parse(text));
}

export function checkChat(chat) {
  if (!is.object(chat)) throw new Error('not an object');
  if (chat.v !== kVersion) throw new Error(`version ${chat.v}, expected ${kVersion}`);
  if (!is.id(chat.id)) throw new Error('no id');
  if (!is.text(chat.title)) throw new Error('no title');
  if (!is.count(chat.created) || !is.count(chat.changed)) throw new Error('no times');
  if (!Array.isArray(chat.turns)) throw new Error('no turns');
  const earlier = new Set();
  chat.turns.forEach((turn, place) => {
    checkTurn(turn, place, earlier);
    earlier.add(turn.id);
  });
  if (chat.head !== null && !earlier.has(chat.head)) throw new Error('its last turn is not there');
  return chat;
}
