// How long the model should think: 0 is not at all, 1 to 100 are the API's; '' leaves it to the
// server. The popover over the composer's button has a slider for it.
import { $, button } from '../base/dom.js';
import { change, settings } from './settings.js';

const kNames = { 0: 'Off', 50: 'Low', 75: 'High', 100: 'Max' };

export function effortText(effort) {
  if (effort === '') return 'as the server has it';
  const name = kNames[effort];
  if (!name) return String(effort);
  return effort === 0 ? name : `${name} (${effort})`;
}

// The field as the API expects it; undefined: none is sent.
export function effortField(effort) {
  if (effort === '') return undefined;
  return effort === 0 ? 'none' : effort;
}

function show() {
  const { effort } = settings;
  $('effort-name').textContent = effort === '' ? 'Auto' : kNames[effort] ?? effort;
  $('effort-value').textContent = effortText(effort);
  $('effort').value = effort === '' ? 75 : effort;
  $('effort').classList.toggle('unset', effort === '');
  $('effort').setAttribute('aria-valuetext', effortText(effort));
  $('effort-server').checked = effort === '';
  for (const mark of $('effort-marks').children) {
    mark.setAttribute('aria-pressed', String(Number(mark.dataset.effort) === effort));
  }
}

export const showEffort = show;

function set(effort) {
  change({ effort });
  show();
}

function toggle(open) {
  $('effort-box').hidden = !open;
  $('open-effort').setAttribute('aria-expanded', String(open));
  if (open) $('effort').focus();
}

export function closeEffort() {
  if ($('effort-box').hidden) return false;
  const inside = $('effort-box').contains(document.activeElement);
  toggle(false);
  if (inside) $('open-effort').focus();
  return true;
}

export function startEffort() {
  for (const [effort, name] of Object.entries(kNames)) {
    const mark = button(name, 'mark', () => set(Number(effort)));
    mark.dataset.effort = effort;
    $('effort-marks').append(mark);
  }
  $('effort').addEventListener('input', () => set(Number($('effort').value)));
  $('effort-server').addEventListener('change', () =>
    set($('effort-server').checked ? '' : Number($('effort').value)));
  $('open-effort').addEventListener('click', () => toggle($('effort-box').hidden));
  document.addEventListener('pointerdown', (event) => {
    if (!event.target.closest('#effort-box, #open-effort')) toggle(false);
  });
  $('effort-box').addEventListener('focusout', (event) => {
    const to = event.relatedTarget;
    if (to && !$('effort-box').contains(to) && to !== $('open-effort')) toggle(false);
  });
  show();
}
