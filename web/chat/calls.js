// The calls of an answer: name, id, arguments as indented JSON; and the result of each, shown, or
// asked for where the conversation waits for it.
import { button, element, icon } from '../base/dom.js';
import { codeBox } from '../base/markdown.js';

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;  // still being written, or not JSON at all
  }
}

function head(call) {
  const made = element('div', 'call-head', icon('wrench'), element('span', 'call-name', call.name),
    element('code', 'call-id', call.id));
  made.title = 'A tool that the model asks for';
  return made;
}

function resultField(call, draft) {
  const field = element('textarea', 'call-result');
  field.rows = 2;
  field.placeholder = 'What the tool returned';
  field.spellcheck = false;
  field.value = draft;
  return element('label', 'call-ask', `Result of ${call.name}`, field);
}

// waits: the calls are complete and nothing followed. onResults(texts): the results, in order.
export function callBoxes(calls, results, waits, onResults, drafts = []) {
  const fields = [];
  const boxes = calls.map((call, i) => {
    const box = element('section', 'call', head(call),
      codeBox('Arguments', pretty(call.arguments)));
    box.setAttribute('aria-label', `Call of ${call.name}`);
    const result = results.get(call.id);
    if (result) {
      box.append(codeBox('Result', pretty(result.content)));
    } else if (waits) {
      const label = resultField(call, drafts[i] ?? '');
      fields.push(label.querySelector('textarea'));
      box.append(label);
    }
    return box;
  });
  if (!fields.length) return boxes;
  const send = () => onResults(fields.map((field) => field.value));
  for (const field of fields) {
    field.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) send();
    });
  }
  const label = fields.length > 1 ? 'Send the results' : 'Send the result';
  boxes.push(element('div', 'row', button(label, 'primary small', send),
    element('span', 'fine', 'Or write on: a call without a result is left out.')));
  return boxes;
}
