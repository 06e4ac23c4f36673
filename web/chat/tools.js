// The tools on offer: typed as JSON, checked as they are typed, sent when they are right.
import { $ } from '../base/dom.js';
import { plural } from '../base/format.js';
import { settings } from './settings.js';

// A list of {type, function} as OpenAI has them, of bare functions, or one of either. Throws what
// is wrong.
export function parseTools(text) {
  if (!text.trim()) return [];
  const parsed = JSON.parse(text);
  return (Array.isArray(parsed) ? parsed : [parsed]).map((tool, i) => {
    const made = tool?.function ? tool : { type: 'function', function: tool };
    if (typeof made.function?.name !== 'string' || !made.function.name) {
      throw new Error(`tool ${i + 1} has no "name"`);
    }
    return made;
  });
}

// Those to send now: none where the text is wrong.
export function toolsOnOffer() {
  try {
    return parseTools(settings.tools);
  } catch {
    return [];
  }
}

const kExample = `[{
  "name": "weather",
  "description": "The weather at a place",
  "parameters": {
    "type": "object",
    "properties": {"place": {"type": "string"}},
    "required": ["place"]
  }
}]`;

export function showTools() {
  let said = 'None on offer';
  let wrong = false;
  let count = 0;
  try {
    count = parseTools(settings.tools).length;
    if (count) said = `${plural(count, 'tool')} on offer`;
  } catch (error) {
    wrong = true;
    said = `Not sent: ${error.message}`;
  }
  $('tools-state').textContent = said;
  $('tools-state').classList.toggle('wrong', wrong);
  $('tools').setAttribute('aria-invalid', String(wrong));
  $('tools-count').textContent = wrong ? '!' : count || '';
  $('open-tools').title = said;
}

export function startTools() {
  $('tools').placeholder = kExample;
  $('tools-example').addEventListener('click', () => {
    if (!$('tools').value.trim()) $('tools').value = kExample;
    $('tools').dispatchEvent(new Event('input', { bubbles: true }));
    $('tools').focus();
    $('tools').setSelectionRange(0, 0);
  });
  showTools();
}
