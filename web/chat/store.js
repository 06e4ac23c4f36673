// Conversations in this browser's storage: each under a key of its own, so that tabs with different
// conversations never meet, and one conversation in two tabs is merged turn by turn.
//
// What cannot be read is left as it is and listed as damaged. What cannot be written stays in
// memory, and whoever called is told.
import { checkChat, kVersion, merge, parseChat, randomId } from './tree.js';

const kPrefix = 'thimble.chat.';
const kFormat = 'thimble.chats';

export const keyOf = (id) => kPrefix + id;

// What importText() takes.
export const exportText = (chats) =>
  JSON.stringify({ format: kFormat, v: kVersion, chats }, null, 1);

// Where a browser blocks storage even its name throws.
function browserStorage() {
  try {
    return window.localStorage;
  } catch {
    return null;
  }
}

export class ChatStore {
  constructor(storage = browserStorage()) {
    this.storage = storage;
    this.written = new Map();  // by id: the text that this tab knows to be stored
    this.heads = new Map();    // by key: {text, chat} or {text, problem}; parsed once
  }

  // Every conversation, the last changed first, and what could not be read.
  list() {
    const chats = [];
    const damaged = [];
    for (const key of this.keys()) {
      const { chat, text, problem } = this.read(key);
      if (chat) chats.push(chat);
      if (problem) damaged.push({ key, text, problem });
    }
    chats.sort((a, b) => b.changed - a.changed);
    return { chats, damaged };
  }

  keys() {
    try {
      return Object.keys(this.storage ?? {}).filter((key) => key.startsWith(kPrefix));
    } catch {
      return [];
    }
  }

  read(key) {
    const text = this.storage?.getItem(key) ?? null;
    if (text === null) return {};
    const known = this.heads.get(key);
    if (known?.text === text) return known;
    const found = { text };
    try {
      found.chat = parseChat(text);
      if (keyOf(found.chat.id) !== key) throw new Error('it has the id of another one');
    } catch (error) {
      delete found.chat;
      found.problem = error.message;
    }
    this.heads.set(key, found);
    return found;
  }

  // A copy that is the caller's, or undefined.
  load(id) {
    const { chat, text } = this.read(keyOf(id));
    if (!chat) return undefined;
    this.written.set(id, text);
    return structuredClone(chat);
  }

  // Throws what the browser throws: QuotaExceededError, or a TypeError where there is no storage.
  save(chat) {
    const stored = this.storage.getItem(keyOf(chat.id));
    if (stored !== null && stored !== this.written.get(chat.id)) this.adopt(chat);
    const text = JSON.stringify(chat);
    this.storage.setItem(keyOf(chat.id), text);
    this.written.set(chat.id, text);
  }

  // Another tab wrote since this one read.
  adopt(chat) {
    const { chat: theirs } = this.read(keyOf(chat.id));
    if (theirs) {
      merge(chat, structuredClone(theirs));
    } else {
      chat.id = randomId();  // what is there cannot be read: it stays, and ours goes elsewhere
    }
  }

  remove(id) {
    this.storage?.removeItem(keyOf(id));
    this.written.delete(id);
  }

  removeDamaged(key) {
    this.storage.removeItem(key);
  }

  // Characters that are stored.
  size() {
    return this.keys().reduce((sum, key) => sum + key.length + this.storage.getItem(key).length, 0);
  }

  // Adds what `text` holds to what is there; a conversation that is there already gets the turns it
  // lacks. Returns how many. All are checked before the first is written.
  importText(text) {
    const file = JSON.parse(text);
    if (file?.format !== kFormat || !Array.isArray(file.chats)) {
      throw new Error(`it has no "format": "${kFormat}" with "chats"`);
    }
    file.chats.forEach((chat, i) => {
      try {
        checkChat(chat);
      } catch (error) {
        throw new Error(`conversation ${i + 1}: ${error.message}`);
      }
    });
    for (const chat of file.chats) this.save(chat);
    return file.chats.length;
  }
}
