// The conversation on screen: a view for each turn of the path that the reader is on. Views of
// turns that stay keep their nodes, so nothing that is open, scrolled or focused is lost.
import { $ } from '../base/dom.js';
import { AnswerView } from './answer.js';
import { QuestionView } from './question.js';
import { path, versions } from './tree.js';

const kNearBottom = 80;  // pixels

export class Thread {
  constructor(actions) {
    this.actions = actions;
    this.views = new Map();  // by the turn's id: another tab may bring the same turn anew
    $('scroll').addEventListener('scroll', () => this.showLatest());
    $('latest').addEventListener('click', () => this.scrollDown());
  }

  // running: the turn that is being made, if it is in this conversation.
  show(chat, running) {
    const follow = this.atBottom();
    const turns = path(chat);
    const results = new Map(turns.filter((turn) => turn.role === 'tool')
      .map((turn) => [turn.call, turn]));
    const shown = turns.filter((turn) => turn.role !== 'tool');
    const views = new Map(shown.map((turn) =>
      [turn.id, this.views.get(turn.id) ?? this.make(turn)]));
    this.views = views;
    this.place([...views.values()].map((view) => view.root));
    for (const turn of shown) {
      const view = views.get(turn.id);
      view.turn = turn;
      view.update({
        running: turn === running, busy: Boolean(running), last: turn === turns.at(-1),
        versions: versions(chat, turn), results,
      });
    }
    $('empty').hidden = turns.length > 0;
    if (follow) this.scrollDown();
    this.showLatest();
  }

  // Only the one that grows.
  grow(turn) {
    const follow = this.atBottom();
    this.views.get(turn.id)?.update({
      running: true, busy: true, last: true, versions: [turn], results: new Map(),
    });
    if (follow) this.scrollDown();
    this.showLatest();
  }

  make(turn) {
    return turn.role === 'user' ? new QuestionView(turn, this.actions)
      : new AnswerView(turn, this.actions);
  }

  place(roots) {
    const log = $('log');
    for (const node of [...log.children]) if (!roots.includes(node)) node.remove();
    roots.forEach((root, i) => {
      if (log.children[i] !== root) log.insertBefore(root, log.children[i] ?? null);
    });
  }

  // Is there anything typed that building the views anew would lose?
  isEditing() {
    return [...this.views.values()].some((view) => view.editing)
      || [...$('log').querySelectorAll('.call-result')].some((field) => field.value);
  }

  // The answer whose calls wait for results gets the keyboard.
  focusResult() {
    $('log').querySelector('.call-result')?.focus();
  }

  atBottom() {
    const box = $('scroll');
    return box.scrollHeight - box.scrollTop - box.clientHeight < kNearBottom;
  }

  scrollDown() {
    $('scroll').scrollTop = $('scroll').scrollHeight;
  }

  // The keyboard does not go away with the button.
  showLatest() {
    const held = $('latest') === document.activeElement;
    $('latest').hidden = this.atBottom();
    if (held && $('latest').hidden) $('input').focus();
  }
}
