// The conversations, by when they changed: opened, renamed, deleted, searched, carried elsewhere.
import { $, element, iconButton } from '../base/dom.js';
import { bytesText, plural } from '../base/format.js';
import { showNotice, showToast } from './notices.js';
import { exportText } from './store.js';

const kDayMs = 86_400_000;

function groupOf(time) {
  const midnight = new Date().setHours(0, 0, 0, 0);
  if (time >= midnight) return 'Today';
  if (time >= midnight - 6 * kDayMs) return 'Last 7 days';
  return 'Earlier';
}

const matches = (chat, wanted) => chat.title.toLowerCase().includes(wanted)
  || chat.turns.some((turn) => turn.content.toLowerCase().includes(wanted));

export class ChatList {
  // actions: {open(id), rename(id, title), remove(id), restore(chat), imported()}
  constructor(store, actions) {
    this.store = store;
    this.actions = actions;
    this.current = '';
    this.running = new Set();
    this.unsaved = new Map();  // by id: conversations that storage did not take
    this.shown = '';           // what the rows were made of
    $('search').addEventListener('input', () => this.show());
    $('chat-list').addEventListener('keydown', (event) => this.move(event));
    $('export').addEventListener('click', () => this.export());
    $('import').addEventListener('click', () => $('import-file').click());
    $('import-file').addEventListener('change', () => this.import());
  }

  show() {
    if ($('chat-list').querySelector('.rename')) return;  // a name is being typed
    const { chats: stored, damaged } = this.store.list();
    const chats = this.withUnsaved(stored);
    const wanted = $('search').value.trim().toLowerCase();
    const found = wanted ? chats.filter((chat) => matches(chat, wanted)) : chats;
    this.showFoot(stored, chats, wanted);
    this.tellDamage(damaged);
    // Rows that are right stay: a pointer may be on its way to one.
    const rows = found.map((chat) => [chat.id, chat.title, groupOf(chat.changed),
      this.running.has(chat.id), this.unsaved.has(chat.id)]);
    const now = JSON.stringify([rows, damaged, this.current, wanted]);
    if (now === this.shown) return;
    this.shown = now;
    this.replace(this.rows(found, damaged, wanted));
  }

  withUnsaved(stored) {
    return [...this.unsaved.values(), ...stored.filter(({ id }) => !this.unsaved.has(id))]
      .sort((a, b) => b.changed - a.changed);
  }

  rows(found, damaged, wanted) {
    const parts = damaged.map((broken) => this.damagedRow(broken));
    let group = '';
    for (const chat of found) {
      if (groupOf(chat.changed) !== group) {
        group = groupOf(chat.changed);
        parts.push(element('h2', '', group));
      }
      parts.push(this.row(chat));
    }
    if (!found.length) {
      parts.push(element('p', 'fine', wanted ? 'Nothing found.' : 'Conversations are kept here, in '
        + 'this browser only.'));
    }
    return parts;
  }

  showFoot(stored, chats, wanted) {
    $('search').hidden = chats.length < 2 && !wanted;
    $('export').disabled = !chats.length;
    $('stored').textContent = stored.length
      ? `${plural(stored.length, 'conversation')}, ${bytesText(this.store.size())}` : '';
  }

  // The keyboard stays on the row it was on.
  replace(parts) {
    const at = document.activeElement?.closest('#chat-list .chat')?.dataset.id;
    const what = document.activeElement?.className;
    $('chat-list').replaceChildren(...parts);
    if (!at) return;
    const row = [...$('chat-list').children].find((node) => node.dataset.id === at);
    (row?.querySelector(`.${what.split(' ').join('.')}`) ?? row?.querySelector('a'))?.focus();
  }

  row(chat) {
    const link = element('a', 'chat-link', chat.title || 'Without a title');
    link.href = `#${chat.id}`;
    link.title = `${chat.title}\n${new Date(chat.changed).toLocaleString()}`;
    link.dir = 'auto';
    if (chat.id === this.current) link.setAttribute('aria-current', 'page');
    link.addEventListener('click', (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;  // a tab of its own
      event.preventDefault();
      this.actions.open(chat.id);
    });
    const row = element('div', 'chat', link);
    row.dataset.id = chat.id;
    row.classList.toggle('running', this.running.has(chat.id));
    if (this.unsaved.has(chat.id)) link.append(element('em', '', ' (not kept)'));
    const tools = element('span', 'chat-tools',
      iconButton('pencil', `Rename ${chat.title}`, () => this.rename(row, chat)),
      iconButton('trash', `Delete ${chat.title}`, () => this.remove(row, chat)));
    row.append(tools);
    return row;
  }

  rename(row, chat) {
    const field = element('input', 'rename');
    field.value = chat.title;
    field.maxLength = 200;
    field.setAttribute('aria-label', 'Name of the conversation');
    let done = false;
    const close = (title) => {
      if (done) return;
      done = true;
      const focus = document.activeElement === field;
      field.remove();
      this.shown = '';
      if (title && title !== chat.title) this.actions.rename(chat.id, title);
      this.show();
      if (focus) this.focusRow(chat.id);
    };
    field.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' && !event.isComposing) close(field.value.trim());
      if (event.key === 'Escape') {
        event.stopPropagation();
        close('');
      }
    });
    field.addEventListener('blur', () => close(field.value.trim()));
    row.replaceChildren(field);
    field.select();
  }

  remove(row, chat) {
    const next = row.nextElementSibling?.dataset.id ?? row.previousElementSibling?.dataset.id;
    this.actions.remove(chat.id);
    this.show();
    if (!this.focusRow(next)) $('new').focus();
    showToast(`Deleted “${chat.title}”`, 'Undo', () => {
      this.actions.restore(chat);
      this.show();
      this.focusRow(chat.id);
    });
  }

  focusRow(id) {
    const row = [...$('chat-list').children].find((node) => node.dataset.id === id);
    row?.querySelector('a')?.focus();
    return Boolean(row);
  }

  // Up and down go from one conversation to the next.
  move(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const links = [...$('chat-list').querySelectorAll('a')];
    const at = links.indexOf(document.activeElement);
    if (!step || at < 0) return;
    event.preventDefault();
    links[at + step]?.focus();
  }

  damagedRow({ key, text, problem }) {
    const name = `${key.slice(key.lastIndexOf('.') + 1)}.txt`;
    const row = element('div', 'chat damaged',
      element('span', 'chat-link', `Damaged: ${problem}`));
    row.append(element('span', 'chat-tools',
      iconButton('copy', `Save the text of ${name}`, () => saveFile(name, text)),
      iconButton('trash', `Delete ${name}`, () => {
        this.store.removeDamaged(key);
        this.show();
        showToast('Deleted a damaged conversation', 'Undo', () => {
          localStorage.setItem(key, text);
          this.show();
        });
      })));
    return row;
  }

  tellDamage(damaged) {
    const what = plural(damaged.length, 'conversation');
    showNotice('damaged', damaged.length === 0 ? '' : `${what} in this browser's storage cannot be \
read. Nothing was changed: the list offers to save the text or delete it.`);
  }

  export() {
    const day = new Date().toISOString().slice(0, 10);
    const { chats } = this.store.list();
    saveFile(`thimble-chats-${day}.json`, exportText(this.withUnsaved(chats)));
  }

  async import() {
    const [file] = $('import-file').files;
    $('import-file').value = '';  // so that the same file can be chosen again
    if (!file) return;
    try {
      const count = this.store.importText(await file.text());
      showToast(`${plural(count, 'conversation')} imported`);
    } catch (error) {
      const full = error.name === 'QuotaExceededError';
      showToast(full ? `This browser's storage is full: “${file.name}” is imported in part only.`
        : `“${file.name}” was not imported: ${error.message}`);
    }
    this.show();
    this.actions.imported();
  }
}

export function saveFile(name, text) {
  const link = element('a');
  link.href = URL.createObjectURL(new Blob([text], { type: 'application/json' }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
