// Lines above the conversation that stay until what they tell of is over; and one short-lived line
// at the bottom, for what can be undone.
import { $, button, element, iconButton } from '../base/dom.js';

const shown = new Map();  // by topic: its line

// actions: [label, function] pairs. An empty text takes the topic away.
export function showNotice(topic, text, actions = []) {
  const before = shown.get(topic);
  if (before?.dataset.text === text) return;
  before?.remove();
  shown.delete(topic);
  if (!text) return;
  const line = element('p', 'notice', element('span', '', text));
  line.dataset.text = text;
  for (const [label, act] of actions) line.append(button(label, 'link', act));
  shown.set(topic, line);
  $('notices').append(line);
}

const kToastMs = 15_000;
let toastTimer;

// Stays while a pointer is over it or the keyboard in it.
export function showToast(text, label, act) {
  const box = $('toast');
  const hide = () => {
    clearTimeout(toastTimer);
    if (box.contains(document.activeElement)) $('input').focus();
    box.hidden = true;
    box.replaceChildren();
  };
  const hideLater = () => {
    clearTimeout(toastTimer);
    toastTimer = setTimeout(() => {
      if (box.matches(':hover, :focus-within')) hideLater();
      else hide();
    }, kToastMs);
  };
  box.replaceChildren(element('span', '', text));
  if (label) {
    box.append(button(label, 'link', () => {
      hide();
      act();
    }));
  }
  box.append(iconButton('close', 'Dismiss', hide));
  box.hidden = false;
  hideLater();
}
