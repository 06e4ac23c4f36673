// The chat page: one conversation with the server that sent the page.
//
// Text of the model only ever becomes text nodes; markup is built from a small part of Markdown
// (render). Settings stay in this browser; the conversation is gone with the page.

const $ = (id) => document.getElementById(id);

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

// Settings

const kDefaults = { system: '', effort: '', temperature: 1, maxTokens: '', theme: '', apiKey: '' };
const kFields = {
  system: 'system', effort: 'effort', temperature: 'temperature', maxTokens: 'max-tokens',
  theme: 'theme', apiKey: 'api-key',
};
const kStore = 'thimble.settings';

function loadSettings() {
  try {
    return { ...kDefaults, ...JSON.parse(localStorage.getItem(kStore) ?? '{}') };
  } catch {
    return { ...kDefaults };  // blocked or broken storage: nothing is remembered
  }
}

let settings = loadSettings();

function saveSettings() {
  try {
    localStorage.setItem(kStore, JSON.stringify(settings));
  } catch { /* as above */ }
}

function showSettings() {
  for (const [key, id] of Object.entries(kFields)) $(id).value = settings[key];
  $('temperature-value').textContent = Number(settings.temperature).toFixed(2);
  if (settings.theme) {
    document.documentElement.dataset.theme = settings.theme;
  } else {
    delete document.documentElement.dataset.theme;
  }
}

function readSettings() {
  for (const [key, id] of Object.entries(kFields)) settings[key] = $(id).value;
  settings.temperature = Number(settings.temperature);
  saveSettings();
  showSettings();
}

// A part of Markdown

const kInline = new RegExp([
  /(`+)([^`]|[^`][\s\S]*?[^`])\1(?!`)/,         // `code`
  /\*\*([^\s*][\s\S]*?)\*\*/,                   // **strong**
  /\*([^\s*][^*]*?)\*/,                         // *emphasis*
  /\[([^\]\n]+)\]\((https?:\/\/[^\s)]+)\)/,     // [label](address)
  /(https?:\/\/[^\s<>"')\]]+[^\s<>"')\].,;:!?])/,
].map((part) => part.source).join('|'), 'g');

function inline(text, parent) {
  let end = 0;
  for (const match of text.matchAll(kInline)) {
    parent.append(text.slice(end, match.index));
    end = match.index + match[0].length;
    const [, , code, strong, emphasis, label, target, bare] = match;
    if (code !== undefined) {
      parent.append(element('code', '', code.trim() || code));
    } else if (strong !== undefined) {
      parent.append(inline(strong, element('strong')));
    } else if (emphasis !== undefined) {
      parent.append(inline(emphasis, element('em')));
    } else {
      const link = element('a', '', label ?? bare);
      link.href = target ?? bare;
      link.target = '_blank';
      link.rel = 'noopener noreferrer';
      parent.append(link);
    }
  }
  parent.append(text.slice(end));
  return parent;
}

// Source text of the blocks, so that a block that did not change keeps its node.
function blocks(text) {
  const found = [];
  let lines = [];
  let fence = '';
  const close = () => {
    if (lines.length) found.push(lines.join('\n'));
    lines = [];
  };
  for (const line of text.split('\n')) {
    const mark = line.match(/^ {0,3}(`{3,}|~{3,})/)?.[1];
    if (fence) {
      lines.push(line);
      if (mark?.startsWith(fence) && !line.trim().slice(mark.length)) {
        fence = '';
        close();
      }
    } else if (mark) {
      close();
      fence = mark;
      lines.push(line);
    } else if (!line.trim()) {
      close();
    } else if (/^ {0,3}(#{1,6} |([-*_] *){3,}$)/.test(line)) {
      close();
      found.push(line);
    } else {
      lines.push(line);
    }
  }
  close();
  return found;
}

function codeBlock(source) {
  const [first, ...rest] = source.split('\n');
  const mark = first.trim().match(/^(`+|~+)/)[1];
  if (rest.length && rest.at(-1).trim().startsWith(mark)) rest.pop();
  const box = element('div', 'code');
  const head = element('div', 'code-head');
  head.append(element('span', '', first.trim().slice(mark.length).trim() || 'text'));
  const copy = element('button', 'quiet', 'Copy');
  copy.type = 'button';
  copy.addEventListener('click', () => copyText(rest.join('\n'), copy));
  head.append(copy);
  const pre = element('pre');
  pre.tabIndex = 0;  // scrolls with the keyboard
  pre.append(element('code', '', rest.join('\n')));
  box.append(head, pre);
  return box;
}

function list(source, ordered) {
  const made = element(ordered ? 'ol' : 'ul');
  if (ordered) made.start = Number.parseInt(source, 10);
  for (const line of source.split('\n')) {
    const item = line.match(/^ {0,3}(?:[-*+]|\d{1,9}[.)]) +(.*)$/);
    if (item) {
      made.append(inline(item[1], element('li')));
    } else if (made.lastChild) {
      inline(`\n${line.trim()}`, made.lastChild);
    }
  }
  return made;
}

function block(source) {
  if (/^ {0,3}(`{3,}|~{3,})/.test(source)) return codeBlock(source);
  const heading = source.match(/^ {0,3}(#{1,6}) +(.*)$/);
  if (heading) return inline(heading[2], element(`h${Math.min(heading[1].length + 2, 5)}`));
  if (/^ {0,3}([-*_] *){3,}$/.test(source)) return element('hr');
  if (/^ {0,3}[-*+] /.test(source)) return list(source, false);
  if (/^ {0,3}\d{1,9}[.)] /.test(source)) return list(source, true);
  if (/^ {0,3}>/.test(source)) {
    return inline(source.replace(/^ {0,3}> ?/gm, ''), element('blockquote'));
  }
  return inline(source, element('p'));
}

function render(text, parent) {
  const wanted = blocks(text);
  const have = parent.renderedBlocks ?? [];
  let same = 0;
  while (same < wanted.length && wanted[same] === have[same]) ++same;
  while (parent.childNodes.length > same) parent.lastChild.remove();
  for (const source of wanted.slice(same)) parent.append(block(source));
  parent.renderedBlocks = wanted;
}

async function copyText(text, button) {
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = 'Copied';
  } catch {
    button.textContent = 'No access to the clipboard';
  }
  setTimeout(() => { button.textContent = label; }, 1500);
}

// The server

let server = { id: '', chat: true };

function headers() {
  const out = { 'Content-Type': 'application/json' };
  if (settings.apiKey) out.Authorization = `Bearer ${settings.apiKey}`;
  return out;
}

async function failure(response) {
  const text = await response.text();
  let message = text;
  try {
    message = JSON.parse(text).error.message;
  } catch { /* not ours: shown as it is */ }
  return new Error(`${message || response.statusText} (${response.status})`);
}

async function loadModel() {
  try {
    const response = await fetch('/v1/models', { headers: headers() });
    if (!response.ok) throw await failure(response);
    const [model] = (await response.json()).data;
    server = { id: model.id, chat: model.thimble?.chat ?? true };
    $('model').textContent = model.id;
    document.title = `${model.id} · thimble`;
    if (!server.chat) {
      notice('This model cannot chat: it goes on with your text.');
    } else if (model.thimble?.random_weights) {
      notice('This model has random weights: everything works, but its words are noise.');
    } else {
      notice('');
    }
  } catch (error) {
    notice(`The server does not answer as expected: ${error.message}`);
  }
}

function notice(text) {
  $('notice').textContent = text;
  $('notice').hidden = !text;
}

function request(turns) {
  const body = {
    model: server.id,
    stream: true,
    stream_options: { include_usage: true },
    temperature: settings.temperature,
  };
  if (Number(settings.maxTokens) >= 1) body.max_tokens = Math.floor(Number(settings.maxTokens));
  if (!server.chat) {
    body.prompt = turns.map((turn) => turn.content).join('');
    return ['/v1/completions', body];
  }
  if (settings.effort) body.reasoning_effort = settings.effort;
  body.messages = turns.map(({ role, content }) => ({ role, content }));
  if (settings.system.trim()) {
    body.messages.unshift({ role: 'system', content: settings.system.trim() });
  }
  return ['/v1/chat/completions', body];
}

// The data of each event of a response.
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let pending = '';
  while (true) {
    const { value, done } = await reader.read();
    if (done) return;
    pending += value;
    const parts = pending.split('\n\n');
    pending = parts.pop();
    for (const part of parts) {
      if (!part.startsWith('data: ')) continue;  // a comment that keeps the connection alive
      const data = part.slice(6);
      if (data === '[DONE]') return;
      yield JSON.parse(data);
    }
  }
}

// Conversation

let turns = [];      // {role, content}
let running = null;  // AbortController of the answer being made

const seconds = (ms) => `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 0)} s`;

// What is shown of one answer while it grows.
class AnswerView {
  constructor() {
    this.root = element('article', 'turn assistant');
    this.root.setAttribute('aria-label', 'Answer');
    this.thoughts = element('details', 'thoughts');
    this.summary = element('summary', '', 'Thinking');
    this.thoughtText = element('div', 'text');
    this.thoughtText.tabIndex = 0;
    this.thoughts.append(this.summary, this.thoughtText);
    this.thoughts.hidden = true;
    this.answer = element('div', 'answer');
    this.waiting = element('div', 'waiting');
    this.waiting.append(element('i'), element('i'), element('i'));
    this.tail = element('div', 'tail');
    this.root.append(this.thoughts, this.answer, this.waiting, this.tail);
    this.reasoning = '';
    this.content = '';
    this.started = performance.now();
    this.first = 0;
    this.last = 0;
    this.deltas = 0;
    this.frame = 0;
  }

  add(reasoning, content) {
    if (!reasoning && !content) return;
    this.last = performance.now();
    this.first ||= this.last;
    ++this.deltas;
    this.reasoning += reasoning;
    if (content && !this.content && this.reasoning) this.endThoughts();
    this.content += content;
    this.frame ||= requestAnimationFrame(() => this.draw());
  }

  endThoughts() {
    this.summary.textContent = `Thought for ${seconds(performance.now() - this.first)}`;
  }

  draw() {
    this.frame = 0;
    const follow = atBottom();
    this.waiting.hidden = Boolean(this.reasoning || this.content);
    this.thoughts.hidden = !this.reasoning;
    const inner = this.thoughtText;
    const innerFollow = inner.scrollHeight - inner.scrollTop - inner.clientHeight < 40;
    if (inner.textContent.length !== this.reasoning.length) inner.textContent = this.reasoning;
    if (innerFollow) inner.scrollTop = inner.scrollHeight;
    render(this.content, this.answer);
    if (this.first) this.tail.textContent = this.rate(this.deltas);
    if (follow) scrollDown();
  }

  rate(tokens) {
    const spent = this.last - this.first;
    const parts = [];
    if (tokens > 1 && spent > 0) parts.push(`${((tokens - 1) * 1000 / spent).toFixed(1)} tokens/s`);
    parts.push(`first token ${seconds(this.first - this.started)}`);
    return parts.join(' · ');
  }

  finish(usage, reason) {
    cancelAnimationFrame(this.frame);
    const follow = atBottom();
    this.draw();
    this.waiting.hidden = true;
    if (this.reasoning && !this.content) this.endThoughts();
    this.tail.textContent = '';
    if (this.content) {
      const copy = element('button', 'quiet', 'Copy');
      copy.type = 'button';
      copy.addEventListener('click', () => copyText(this.content, copy));
      this.tail.append(copy);
    }
    const tokens = usage?.completion_tokens ?? this.deltas;
    const facts = [`${tokens} tokens`];
    const thought = usage?.completion_tokens_details?.reasoning_tokens;
    if (thought) facts.push(`${thought} of them thinking`);
    if (this.first) facts.push(this.rate(tokens));
    if (reason === 'length') facts.push('cut at the longest length');
    if (reason === 'stopped') facts.push('stopped');
    this.tail.append(element('span', 'facts', facts.join(' · ')));
    if (follow) scrollDown();
  }

  problem(message) {
    this.waiting.hidden = true;
    const box = element('div', 'problem', message);
    box.setAttribute('role', 'alert');
    this.root.insertBefore(box, this.tail);
    scrollDown();
  }
}

async function receive(view, signal) {
  const [path, body] = request(turns);
  const response = await fetch(path, {
    method: 'POST', headers: headers(), body: JSON.stringify(body), signal,
  });
  if (!response.ok) throw await failure(response);
  let usage = null;
  let reason = '';
  for await (const event of events(response)) {
    if (event.error) throw new Error(event.error.message);
    usage = event.usage ?? usage;
    const choice = event.choices[0];
    if (!choice) continue;
    reason = choice.finish_reason ?? reason;
    view.add(choice.delta?.reasoning_content ?? '', choice.delta?.content ?? choice.text ?? '');
  }
  return [usage, reason];
}

async function ask(text) {
  turns.push({ role: 'user', content: text });
  const mine = element('article', 'turn user');
  mine.setAttribute('aria-label', 'You');
  mine.append(element('div', 'text', text));
  const view = new AnswerView();
  $('empty').hidden = true;
  $('log').append(mine, view.root);
  scrollDown();
  running = new AbortController();
  const mineNow = running;
  showRunning();
  try {
    const [usage, reason] = await receive(view, running.signal);
    view.finish(usage, reason);
    if (usage) $('totals').textContent = `${usage.total_tokens} tokens in this chat`;
    $('status').textContent = 'Answer complete';
  } catch (error) {
    const stopped = error.name === 'AbortError';
    view.finish(null, stopped ? 'stopped' : '');
    if (!stopped) view.problem(error.message);
    $('status').textContent = stopped ? 'Stopped' : 'The answer failed';
  }
  if (running !== mineNow) return;  // a new chat began meanwhile
  if (view.content) {
    turns.push({ role: 'assistant', content: view.content });
  } else {
    turns.pop();  // a question without an answer would only confuse the next one
  }
  running = null;
  showRunning();
}

function showRunning() {
  $('send').hidden = Boolean(running);
  $('stop').hidden = !running;
  $('send').disabled = !$('input').value.trim();
}

function stop() {
  running?.abort();
}

function newChat() {
  stop();
  running = null;
  turns = [];
  $('log').replaceChildren();
  $('totals').textContent = '';
  $('empty').hidden = false;
  $('latest').hidden = true;
  showRunning();
  $('input').focus();
}

// Scrolling: the newest text stays in view unless the reader went up.

function atBottom() {
  const box = $('scroll');
  return box.scrollHeight - box.scrollTop - box.clientHeight < 80;
}

function scrollDown() {
  $('scroll').scrollTop = $('scroll').scrollHeight;
}

// Controls

function growInput() {
  const input = $('input');
  input.style.height = 'auto';
  input.style.height = `${input.scrollHeight}px`;
  $('send').disabled = !input.value.trim();
}

function submit() {
  const text = $('input').value.trim();
  if (!text || running) return;
  $('input').value = '';
  growInput();
  ask(text);
}

$('composer').addEventListener('submit', (event) => {
  event.preventDefault();
  submit();
});
$('input').addEventListener('input', growInput);
$('input').addEventListener('keydown', (event) => {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  submit();
});
$('stop').addEventListener('click', stop);
$('new').addEventListener('click', newChat);
$('latest').addEventListener('click', scrollDown);
$('scroll').addEventListener('scroll', () => { $('latest').hidden = atBottom(); });
$('open-settings').addEventListener('click', () => $('settings').showModal());
$('settings').addEventListener('input', readSettings);
$('settings').addEventListener('close', () => {
  readSettings();
  loadModel();
  $('input').focus();
});
$('reset').addEventListener('click', () => {
  settings = { ...kDefaults };
  saveSettings();
  showSettings();
});
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && !$('settings').open) stop();
  if (event.altKey && event.code === 'KeyN') {
    event.preventDefault();
    newChat();
  }
});

showSettings();
growInput();
loadModel();
