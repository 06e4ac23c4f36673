// What a person chose: kept in this browser, the same in all its tabs.
import { showNotice } from './notices.js';

const kKey = 'thimble.settings';
const kDamagedKey = 'thimble.settings.damaged';
const kDefaults = {
  system: '', effort: '', temperature: 1, maxTokens: '', theme: '', apiKey: '',
  tools: '', toolChoice: 'auto', showChats: true, showCache: false,
};
// How effort was kept before it was a number.
const kOldEfforts = { none: 0, low: 50, high: 75, max: 100 };

function stored() {
  let text = null;
  try {
    text = localStorage.getItem(kKey);
    const found = { ...kDefaults, ...JSON.parse(text ?? '{}') };
    found.effort = kOldEfforts[found.effort] ?? found.effort;
    const known = Number.isInteger(found.effort) && found.effort >= 0 && found.effort <= 100;
    if (!known) found.effort = '';
    return found;
  } catch {
    if (text !== null) setDamagedAside(text);
    return { ...kDefaults };
  }
}

function setDamagedAside(text) {
  try {
    localStorage.setItem(kDamagedKey, text);
    localStorage.removeItem(kKey);
  } catch { /* then it stays where it is */ }
  showNotice('settings', `The settings could not be read, so these are the usual ones. What was \
there is kept under "${kDamagedKey}" in this browser's storage.`);
}

export const settings = stored();

// Only what changed is written: another tab may have changed the rest.
export function change(fields) {
  Object.assign(settings, fields);
  try {
    localStorage.setItem(kKey, JSON.stringify({ ...stored(), ...fields }));
  } catch { /* full or blocked: the choice holds as long as the page */ }
  if ('theme' in fields) dispatchEvent(new Event('thimble-theme'));
}

export function resetSettings() {
  const { showChats, showCache, theme } = settings;
  change({ ...kDefaults, showChats, showCache, theme });
}

// Calls back when another tab changed them.
export function onSettings(changed) {
  addEventListener('storage', (event) => {
    if (event.key !== kKey && event.key !== null) return;
    Object.assign(settings, stored());
    changed();
  });
}
