// The conversation on screen, the answers that are being made, and what is kept of them.
import { announce } from '../base/dom.js';
import { showNotice } from './notices.js';
import { Run } from './run.js';
import { addTurn, choose, dropTurn, isEmpty, newChat, path } from './tree.js';

const kSaveMs = 1000;  // between two saves of an answer that grows

export class Session {
  // request(turns): [path, body]. events: shown() the conversation changed, grown(turn) an answer
  // did, saved() storage did, ended(run), exportChats(chats) on demand.
  constructor(store, request, events) {
    this.store = store;
    this.request = request;
    this.events = events;
    this.chat = newChat();
    this.runs = new Map();     // by conversation: {run, chat}
    this.unsaved = new Map();  // by id: conversations that storage did not take
  }

  get running() {
    return this.runs.get(this.chat.id)?.run.turn ?? null;
  }

  // False: it is not there, or cannot be read.
  open(id) {
    const chat = this.runs.get(id)?.chat ?? this.unsaved.get(id) ?? this.store.load(id);
    if (!chat) return false;
    this.chat = chat;
    this.events.shown();
    return true;
  }

  openNew() {
    this.chat = newChat();
    this.events.shown();
  }

  send(text) {
    addTurn(this.chat, this.chat.head, { role: 'user', content: text });
    this.answer();
  }

  edit(turn, text) {
    addTurn(this.chat, turn.parent, { role: 'user', content: text });
    this.answer();
  }

  giveResults(turn, texts) {
    turn.calls.forEach(({ id, name }, i) => {
      addTurn(this.chat, this.chat.head, { role: 'tool', call: id, name, content: texts[i] });
    });
    this.answer();
  }

  // A second answer to the same; one that failed before its first word is replaced.
  regenerate(turn) {
    if (this.running) return;
    const { parent } = turn;
    if (isEmpty(turn)) dropTurn(this.chat, turn);
    this.chat.head = parent;
    this.answer();
  }

  choose(turn) {
    if (this.running) return;
    choose(this.chat, turn);
    this.keep(this.chat, false);
    this.events.shown();
  }

  answer() {
    const { chat } = this;
    const turns = path(chat);
    const turn = addTurn(chat, chat.head, { role: 'assistant' });
    const run = new Run(turn, this.request(turns), {
      onChange: () => this.grown(chat, turn), onEnd: () => this.ended(chat, run),
    });
    run.saved = performance.now();
    this.runs.set(chat.id, { run, chat });
    this.keep(chat);
    this.events.shown();
    run.go();
  }

  grown(chat, turn) {
    if (chat === this.chat) this.events.grown(turn);
    const { run } = this.runs.get(chat.id) ?? {};
    if (!run || performance.now() - run.saved < kSaveMs) return;
    this.keep(chat);
    run.saved = performance.now();
  }

  ended(chat, run) {
    if (this.runs.get(chat.id)?.run !== run) return;  // its conversation was deleted, or the page
    this.runs.delete(chat.id);
    this.keep(chat);
    if (chat === this.chat) this.events.shown();
    else this.events.saved();
    announce({ stopped: 'Stopped', error: 'The answer failed' }[run.turn.end] ?? 'Answer complete');
    this.events.ended(run);
  }

  stop() {
    this.runs.get(this.chat.id)?.run.stop();
  }

  // Stores a conversation, or says why not: then it is kept here as long as the page.
  keep(chat, touch = true) {
    if (touch) chat.changed = Date.now();
    const before = chat.id;
    try {
      this.store.save(chat);
      this.unsaved.delete(before);
    } catch (error) {
      this.unsaved.set(chat.id, chat);
      this.problem = error;
    }
    if (chat.id !== before && this.runs.has(before)) {
      this.runs.set(chat.id, this.runs.get(before));
      this.runs.delete(before);
    }
    this.tellUnsaved();
    this.events.saved();
  }

  tellUnsaved() {
    if (!this.unsaved.size) {
      showNotice('storage', '');
      return;
    }
    const full = this.problem?.name === 'QuotaExceededError';
    const why = full ? "This browser's storage is full, so this conversation is not kept. Delete "
      + 'some that you no longer need, or save it as a file.'
      : 'This browser lets the page keep nothing: conversations end with the page.';
    showNotice('storage', why, [
      ['Try again', () => this.saveUnsaved()],
      ['Save as a file', () => this.events.exportChats([...this.unsaved.values()])]]);
  }

  saveUnsaved() {
    for (const chat of [...this.unsaved.values()]) this.keep(chat, false);
  }

  // The page goes: what runs is kept as it is. That it breaks off then is no error to show later.
  leave() {
    for (const { chat } of this.runs.values()) this.keep(chat);
    this.runs.clear();
  }

  remove(id) {
    const running = this.runs.get(id);
    this.runs.delete(id);
    running?.run.stop();
    this.unsaved.delete(id);
    this.store.remove(id);
    if (this.chat.id === id) this.openNew();
    this.saveUnsaved();  // there is room now
  }

  rename(id, title) {
    const chat = id === this.chat.id ? this.chat : this.runs.get(id)?.chat ?? this.store.load(id);
    if (!chat) return;
    chat.title = title;
    chat.named = true;
    this.keep(chat, false);
    if (chat === this.chat) this.events.shown();
  }

  // Another tab wrote the conversation on screen. It may have gone on from where the reader is.
  reload() {
    const theirs = this.store.load(this.chat.id);
    if (!theirs || this.running) return;
    const { head } = this.chat;
    const known = theirs.turns.some((turn) => turn.id === head);
    if (known && !path(theirs).some((turn) => turn.id === head)) theirs.head = head;
    this.chat = theirs;
    this.events.shown();
  }
}
