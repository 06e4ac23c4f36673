// The chat page. This file only joins its parts: what is on screen (thread, list, composer,
// columns), what is kept (store), and what is asked (session, server).
import { $, fillIcons, setIcon } from './base/dom.js';
import { CachePanel } from './chat/cache_panel.js';
import { Composer } from './chat/composer.js';
import { closeEffort, showEffort, startEffort } from './chat/effort.js';
import { SideColumn } from './chat/layout.js';
import { ChatList, saveFile } from './chat/list.js';
import { showToast } from './chat/notices.js';
import { makeRequest } from './chat/request.js';
import { checkHealth, loadServer, server } from './chat/server.js';
import { Session } from './chat/session.js';
import { change, onSettings, settings } from './chat/settings.js';
import { openSettings, showSettings, startDialogs } from './chat/dialogs.js';
import { ChatStore, exportText, keyOf } from './chat/store.js';
import { Thread } from './chat/thread.js';
import { startTools, toolsOnOffer } from './chat/tools.js';
import { path } from './chat/tree.js';

const store = new ChatStore();
const panel = new CachePanel();

const request = (turns) => makeRequest(server, settings, toolsOnOffer(), turns);

const session = new Session(store, request, {
  shown: showChat,
  grown: (turn) => thread.grow(turn),
  saved: showList,
  ended: answerEnded,
  exportChats: (chats) => saveFile('thimble-chats.json', exportText(chats)),
});

const thread = new Thread({
  edit: (turn, text) => session.edit(turn, text),
  regenerate: (turn) => session.regenerate(turn),
  giveResults: (turn, texts) => session.giveResults(turn, texts),
  choose: (turn) => session.choose(turn),
  openSettings,
  newChat,
});

const composer = new Composer({ send: (text) => session.send(text), stop: () => session.stop() });

const list = new ChatList(store, {
  open: (id) => go(id),
  rename: (id, title) => session.rename(id, title),
  remove: (id) => session.remove(id),
  restore: (chat) => {
    session.keep(structuredClone(chat), false);
    go(chat.id);
  },
  imported: () => session.reload(),
});

const chats = new SideColumn('chats', 'open-chats', '(min-width: 56rem)', (open, chosen) => {
  if (chosen) change({ showChats: open });
  document.body.classList.toggle('with-chats', open);
});
const cache = new SideColumn('cache', 'open-cache', '(min-width: 75rem)', (open, chosen) => {
  if (chosen) change({ showCache: open });
  panel.setOpen(open);
});

// The conversation on screen

function showChat() {
  const { chat, running } = session;
  if (composer.id !== draftId(chat)) composer.attach(draftId(chat));
  thread.show(chat, running);
  composer.setRunning(Boolean(running));
  composer.showContext(path(chat).findLast((turn) => turn.stats?.total)?.stats.total ?? 0,
    server.context);
  document.title = `${chat.title || server.id || 'chat'} · thimble`;
  const hash = chat.turns.length ? `#${chat.id}` : '';
  if (hash !== location.hash) history.replaceState(null, '', hash || location.pathname);
  showList();
}

const draftId = (chat) => (chat.turns.length ? chat.id : 'new');

function showList() {
  list.current = session.chat.id;
  list.running = new Set(session.runs.keys());
  list.unsaved = session.unsaved;
  list.show();
}

// To a conversation that is kept; Back leads to the one before.
function go(id) {
  if (id === session.chat.id && session.chat.turns.length) {
    chats.closeOver();
    return;
  }
  if (location.hash !== `#${id}`) history.pushState(null, '', `#${id}`);
  openHash();
  chats.closeOver();
}

function openHash() {
  const id = location.hash.slice(1);
  if (!id) {
    session.openNew();
  } else if (id !== session.chat.id && !session.open(id)) {
    session.openNew();
    showToast('That conversation is not in this browser.');
  }
  thread.scrollDown();
}

function newChat() {
  if (session.chat.turns.length) history.pushState(null, '', location.pathname);
  session.openNew();
  chats.closeOver();
  $('input').focus();
}

function answerEnded({ turn }) {
  if (turn.calls?.length && turn.end !== 'error') thread.focusResult();
  if (!turn.problem) return;
  const { status, code } = turn.problem;
  if (status === 503 || code === 'cut' || code === 'unreachable') checkHealth(modelChanged);
}

function modelChanged() {
  $('model').textContent = server.id;
  $('facts').textContent = server.context
    ? `A conversation may have ${server.context.toLocaleString('en')} tokens.` : '';
  showChat();
}

// Other tabs

addEventListener('storage', ({ key, newValue }) => {
  if (key !== null && !key.startsWith(keyOf(''))) return;
  showList();
  const { chat } = session;
  if (!chat.turns.length || (key !== null && key !== keyOf(chat.id))) return;
  if (key === null || newValue === null) {
    showToast('This conversation was deleted in another tab.', 'Keep it',
      () => session.keep(chat, false));
  } else if (!thread.isEditing()) {
    session.reload();
  }
});
addEventListener('pagehide', () => session.leave());
addEventListener('pageshow', ({ persisted }) => {
  if (persisted) showChat();  // back from the browser's memory, where nothing runs
});
addEventListener('beforeunload', (event) => {
  if (session.unsaved.size) event.preventDefault();
});
addEventListener('popstate', openHash);

// Controls

const kThemes = [['', 'half', 'Colours: as the system has them'],
  ['light', 'sun', 'Colours: light'], ['dark', 'moon', 'Colours: dark']];

function showTheme() {
  const [, name, label] = kThemes.find(([theme]) => theme === settings.theme) ?? kThemes[0];
  setIcon($('theme'), name, label);
}

function nextTheme() {
  const at = kThemes.findIndex(([theme]) => theme === settings.theme);
  change({ theme: kThemes[(at + 1) % kThemes.length][0] });
  showTheme();
}

document.addEventListener('keydown', (event) => {
  if (event.altKey && event.code === 'KeyN') {
    event.preventDefault();
    newChat();
  }
  if (event.key !== 'Escape' || event.isComposing) return;
  if (document.querySelector('dialog[open]')) return;
  if (event.target.id === 'search' && event.target.value) return;  // it is emptied, no more
  if (closeEffort() || chats.closeOver() || cache.closeOver()) return;
  session.stop();
});
$('new').addEventListener('click', newChat);
$('new-short').addEventListener('click', newChat);
$('theme').addEventListener('click', nextTheme);
$('close-chats').addEventListener('click', () => chats.toggle(false));
$('close-cache').addEventListener('click', () => cache.toggle(false));
$('backdrop').addEventListener('click', () => chats.closeOver() || cache.closeOver());
onSettings(() => {
  showSettings();
  showTheme();
  showEffort();
});

fillIcons();
startEffort();
startTools();
startDialogs(() => loadServer(modelChanged));
showTheme();
chats.start(settings.showChats);
cache.start(settings.showCache);
openHash();
composer.grow();
loadServer(modelChanged);
