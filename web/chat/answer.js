// An answer as it grows and once it is there: folded reasoning, text, calls, what went wrong, what
// it cost. Everything shown follows from the turn; update() may be called as often as one likes.
import { button, copyText, element, icon, iconButton, speak } from '../base/dom.js';
import { render } from '../base/markdown.js';
import { explain } from './api.js';
import { callBoxes } from './calls.js';
import { figureTexts, speedTexts, thoughtText } from './figures.js';
import { versionSwitch } from './versions.js';

const kNearBottom = 40;  // pixels within which a box follows its newest text

export class AnswerView {
  // actions: {regenerate(turn), choose(turn), giveResults(turn, texts), openSettings(), newChat()}
  constructor(turn, actions) {
    this.turn = turn;
    this.actions = actions;
    this.root = element('article', 'turn assistant');
    this.root.setAttribute('aria-label', 'Answer');
    this.summaryText = element('span', '', 'Thinking');
    this.thoughtText = element('div', 'text');
    this.thoughtText.tabIndex = 0;  // scrolls with the keyboard
    this.thoughtText.dir = 'auto';
    this.thoughts = element('details', 'thoughts',
      element('summary', '', icon('thought'), this.summaryText), this.thoughtText);
    this.answer = element('div', 'answer');
    this.answer.dir = 'auto';
    this.calls = element('div', 'calls');
    this.waiting = element('div', 'waiting', element('i'), element('i'), element('i'));
    this.waiting.setAttribute('aria-hidden', 'true');
    this.problem = element('div');
    this.tail = element('div', 'tail');
    this.root.append(this.thoughts, this.answer, this.calls, this.waiting, this.problem, this.tail);
    this.spoken = 0;  // blocks that were read out
  }

  // state: {running, last, busy, versions, results}
  update(state) {
    const { turn } = this;
    this.root.classList.toggle('running', state.running);
    this.root.setAttribute('aria-busy', String(state.running));
    this.waiting.hidden = !state.running || Boolean(turn.reasoning || turn.content || turn.calls);
    this.updateThoughts(state.running);
    const blocks = render(turn.content, this.answer);
    if (state.running) this.speak(blocks.slice(0, -1));
    else if (this.wasRunning) this.speak(blocks);
    this.wasRunning = state.running;
    this.updateCalls(state);
    this.updateProblem();
    this.updateTail(state);
  }

  updateThoughts(running) {
    const { turn, thoughtText: inner } = this;
    const thinking = running && !turn.content && !turn.calls;
    this.thoughts.hidden = !turn.reasoning;
    this.thoughts.classList.toggle('now', thinking);
    this.summaryText.textContent = thoughtText(turn, thinking);
    const text = turn.reasoning ?? '';
    if (inner.textContent.length === text.length) return;
    const follow = inner.scrollHeight - inner.scrollTop - inner.clientHeight < kNearBottom;
    inner.textContent = text;
    if (follow) inner.scrollTop = inner.scrollHeight;
  }

  // Whole paragraphs, each once, politely.
  speak(blocks) {
    for (const text of blocks.slice(this.spoken)) speak(text);
    this.spoken = Math.max(this.spoken, blocks.length);
  }

  // Built anew only when it would differ: a result that is being typed must stay.
  updateCalls({ running, last, results }) {
    const calls = this.turn.calls ?? [];
    const waits = last && !running;
    const now = JSON.stringify([calls, waits, calls.map((call) => results.get(call.id)?.content)]);
    if (now === this.shownCalls) return;
    this.shownCalls = now;
    this.calls.replaceChildren(...callBoxes(calls, results, waits,
      (texts) => this.actions.giveResults(this.turn, texts)));
  }

  updateProblem() {
    const { problem } = this.turn;
    const key = JSON.stringify(problem ?? null);
    if (key === this.shownProblem) return;
    this.shownProblem = key;
    this.problem.replaceChildren();
    this.problem.className = problem ? 'problem' : '';
    if (!problem) return;
    const act = element('div', 'row');
    act.append(button('Try again', 'small', () => this.actions.regenerate(this.turn)));
    if (problem.status === 401) act.append(button('Settings', 'small', this.actions.openSettings));
    if (problem.code === 'context_length_exceeded') {
      act.append(button('New chat', 'small', this.actions.newChat));
    }
    const text = element('p', '', element('span', '', explain(problem)));
    text.setAttribute('role', 'alert');
    this.problem.append(text, act);
  }

  updateTail({ running, busy, versions }) {
    if (running) {
      const text = speedTexts(this.turn.stats ?? {}).join(' · ');
      this.tail.replaceChildren(element('span', 'facts', text));
      return;
    }
    const parts = [versionSwitch(this.turn, versions, this.actions.choose)];
    if (this.turn.content) {
      const copy = iconButton('copy', 'Copy answer', () => copyText(this.turn.content, copy));
      parts.push(copy);
    }
    if (!this.turn.problem || this.turn.content) {  // else it has a button of its own
      const again = iconButton('again', 'Answer anew', () => this.actions.regenerate(this.turn));
      again.disabled = busy;
      parts.push(again);
    }
    parts.push(element('span', 'facts', this.factText()));
    this.tail.replaceChildren(...parts.filter(Boolean));
  }

  factText() {
    if (!this.turn.end) return 'not complete';  // the page was closed, or another tab is at it
    if (this.turn.end === 'error' && !this.turn.stats?.tokens) return '';
    return figureTexts(this.turn).join(' · ');
  }
}
