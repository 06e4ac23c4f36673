// Where a message is written. What was typed and not sent is kept for each conversation as long as
// the tab.
import { $ } from '../base/dom.js';
import { wholeText } from '../base/format.js';

const kDraft = 'thimble.draft.';

function keepDraft(id, text) {
  try {
    if (text) sessionStorage.setItem(kDraft + id, text);
    else sessionStorage.removeItem(kDraft + id);
  } catch { /* full or blocked: then only this page knows it */ }
}

function draftOf(id) {
  try {
    return sessionStorage.getItem(kDraft + id) ?? '';
  } catch {
    return '';
  }
}

export class Composer {
  // actions: {send(text), stop()}
  constructor(actions) {
    this.actions = actions;
    this.running = false;
    this.id = '';  // whose draft it is
    $('composer').addEventListener('submit', (event) => {
      event.preventDefault();
      this.submit();
    });
    $('input').addEventListener('input', () => {
      this.grow();
      keepDraft(this.id, $('input').value);
    });
    $('input').addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.submit();
    });
    $('stop').addEventListener('click', () => {
      this.actions.stop();
      $('input').focus();
    });
  }

  submit() {
    const text = $('input').value.trim();
    if (!text || this.running) return;
    this.clear();
    this.actions.send(text);
  }

  clear() {
    $('input').value = '';
    keepDraft(this.id, '');
    this.grow();
  }

  // Belongs to another conversation now.
  attach(id) {
    this.id = id;
    $('input').value = draftOf(id);
    this.grow();
  }

  grow() {
    const input = $('input');
    input.style.height = 'auto';
    input.style.height = `${input.scrollHeight}px`;
    $('send').disabled = !input.value.trim();
  }

  setRunning(running) {
    const held = [$('stop'), $('send')].includes(document.activeElement);
    this.running = running;
    $('send').hidden = running;
    $('stop').hidden = !running;
    if (held) $('input').focus();
  }

  // How much of the context the conversation takes. used 0: nothing is known yet.
  showContext(used, context) {
    const known = Boolean(used && context);
    $('context').hidden = !known;
    if (!known) return;
    const share = Math.min(1, used / context);
    $('context-bar').value = share;
    $('context').classList.toggle('tight', share > 0.9);
    $('context-text').textContent = `${wholeText(used)} of ${wholeText(context)} tokens`;
  }
}
