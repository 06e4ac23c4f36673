// The two columns beside the conversation: in place where there is room, over it where there is
// not. Over it they hold the keyboard until Escape, the backdrop or their button closes them.
import { $ } from '../base/dom.js';

export class SideColumn {
  // id: of the column; opener: of its button; query: where it stands in place. onToggle(open,
  // chosen): whether it shows, and whether a person said so where there is room.
  constructor(id, opener, query, onToggle) {
    this.box = $(id);
    this.opener = $(opener);
    this.room = matchMedia(query);
    this.onToggle = onToggle;
    this.wanted = false;  // where there is room
    this.over = false;    // where there is none
    this.opener.addEventListener('click', () => this.toggle());
    this.room.addEventListener('change', () => {
      this.over = false;
      this.apply();
    });
  }

  get open() {
    return this.room.matches ? this.wanted : this.over;
  }

  start(wanted) {
    this.wanted = wanted;
    this.apply();
  }

  toggle(open = !this.open) {
    if (open === this.open) return;
    const held = this.box.contains(document.activeElement);
    if (this.room.matches) this.wanted = open;
    else this.over = open;
    this.apply();
    if (this.room.matches) this.onToggle(open, true);
    if (open && this.over) this.box.querySelector('button, a, input')?.focus();
    if (!open && held) this.opener.focus();
  }

  // True where it lay over the page and is closed now.
  closeOver() {
    if (!this.over) return false;
    this.toggle(false);
    return true;
  }

  apply() {
    this.box.hidden = !this.open;
    this.opener.setAttribute('aria-expanded', String(this.open));
    this.box.classList.toggle('over', this.over);
    const over = document.querySelector('.side.over') !== null;
    $('stage').inert = over;
    $('backdrop').hidden = !over;
    this.onToggle(this.open, false);
  }
}
