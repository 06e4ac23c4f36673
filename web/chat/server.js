// The server behind this page: which model it has, and whether it is there at all.
import { getJson } from './api.js';
import { showNotice } from './notices.js';

const kAgainMs = 3000;

export const server = { id: '', chat: true, context: 0 };

let timer;

// Asks, and asks again while there is no answer. changed(): something about the model is new.
export async function loadServer(changed) {
  clearTimeout(timer);
  try {
    const [model] = (await getJson('/v1/models')).data;
    Object.assign(server, {
      id: model.id, chat: model.thimble?.chat ?? true, context: model.max_model_len ?? 0,
    });
    showNotice('server', '');
    showNotice('model', modelText(model.thimble ?? {}));
    changed();
  } catch (error) {
    showProblem(error, changed);
  }
}

function modelText({ chat = true, random_weights: random }) {
  if (!chat) return 'This model cannot chat: it goes on with your text.';
  return random ? 'This model has random weights: everything works, but its words are noise.' : '';
}

function showProblem(error, changed) {
  if (error.status === 401) {
    showNotice('server', 'The server asks for its API key: see Settings.');
    return;
  }
  const text = error.code === 'unreachable' ? 'The server does not answer. Asking again …'
    : `The server does not answer as expected: ${error.message}`;
  showNotice('server', text, [['Ask now', () => loadServer(changed)]]);
  timer = setTimeout(() => loadServer(changed), kAgainMs);
}

// A stopping server says so for as long as it still answers.
export async function checkHealth(changed) {
  try {
    await getJson('/health');
  } catch (error) {
    if (error.status === 503) {
      showNotice('server', 'The server is stopping: it finishes what runs and takes nothing new.');
      timer = setTimeout(() => loadServer(changed), kAgainMs);
    } else {
      showProblem(error, changed);
    }
  }
}
