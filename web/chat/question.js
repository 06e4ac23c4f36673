// A message of the person: shown, copied, and edited into a new version of itself.
import { button, copyText, element, iconButton } from '../base/dom.js';
import { versionSwitch } from './versions.js';

export class QuestionView {
  // actions: {edit(turn, text), choose(turn)}
  constructor(turn, actions) {
    this.turn = turn;
    this.actions = actions;
    this.root = element('article', 'turn user');
    this.root.setAttribute('aria-label', 'You');
    this.text = element('div', 'text', turn.content);
    this.text.dir = 'auto';
    this.tools = element('div', 'tail');
    this.root.append(this.text, this.tools);
    this.editing = false;
  }

  update({ versions, busy }) {
    const copy = iconButton('copy', 'Copy message', () => copyText(this.turn.content, copy));
    const edit = iconButton('pencil', 'Edit message', () => this.edit());
    edit.disabled = busy;
    this.tools.replaceChildren(
      ...[versionSwitch(this.turn, versions, this.actions.choose), copy, edit].filter(Boolean));
  }

  edit() {
    if (this.editing) return;
    this.editing = true;
    const field = element('textarea', 'edit-field');
    field.value = this.turn.content;
    field.setAttribute('aria-label', 'Edit your message');
    const grow = () => {
      field.style.height = 'auto';
      field.style.height = `${field.scrollHeight + 2}px`;
    };
    const save = button('Send', 'primary small', () => this.close(field.value.trim()));
    const box = element('div', 'edit', field, element('div', 'row end',
      element('span', 'fine grow', 'The version before stays.'),
      button('Cancel', 'quiet small', () => this.close('')), save));
    field.addEventListener('input', () => {
      grow();
      save.disabled = !field.value.trim();
    });
    field.addEventListener('keydown', (event) => this.key(event, field));
    this.root.classList.add('editing');
    this.root.replaceChildren(box);
    grow();
    field.focus();
  }

  key(event, field) {
    if (event.key === 'Escape') {
      event.stopPropagation();
      this.close('');
    } else if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      this.close(field.value.trim());
    }
  }

  // An empty text, or the same: nothing changed.
  close(text) {
    this.editing = false;
    this.root.classList.remove('editing');
    this.root.replaceChildren(this.text, this.tools);
    if (text && text !== this.turn.content) {
      this.actions.edit(this.turn, text);
    } else {
      this.tools.querySelector('[aria-label="Edit message"]')?.focus();
    }
  }
}
