// The two dialogs: settings, and the tools on offer. What is typed holds at once.
import { $ } from '../base/dom.js';
import { showEffort } from './effort.js';
import { change, resetSettings, settings } from './settings.js';
import { showTools } from './tools.js';

const kFields = {
  system: 'system', temperature: 'temperature', maxTokens: 'max-tokens', apiKey: 'api-key',
  tools: 'tools', toolChoice: 'tool-choice',
};

export function showSettings() {
  for (const [key, id] of Object.entries(kFields)) $(id).value = settings[key];
  showTemperature();
  showTools();
}

function showTemperature() {
  $('temperature-value').textContent = Number(settings.temperature).toFixed(2);
}

function read(event) {
  const [key] = Object.entries(kFields).find(([, id]) => id === event.target.id) ?? [];
  if (!key) return;
  change({ [key]: key === 'temperature' ? Number(event.target.value) : event.target.value });
  showTemperature();
  showTools();
}

export function openSettings() {
  $('settings').showModal();
}

// onClosed(): settings may have changed how the server is reached.
export function startDialogs(onClosed) {
  $('open-settings').addEventListener('click', openSettings);
  $('open-tools').addEventListener('click', () => $('tools-dialog').showModal());
  for (const dialog of [$('settings'), $('tools-dialog')]) {
    dialog.addEventListener('input', read);
    // A click beside it closes it.
    dialog.addEventListener('pointerdown', (event) => {
      if (event.target === dialog) dialog.close();
    });
  }
  $('settings').addEventListener('close', () => {
    onClosed();
    $('input').focus();
  });
  $('tools-dialog').addEventListener('close', () => $('input').focus());
  $('reset').addEventListener('click', () => {
    resetSettings();
    showSettings();
    showEffort();
  });
  showSettings();
}
