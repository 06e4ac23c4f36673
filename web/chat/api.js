// The server's API as this page uses it: requests, streams of events, and errors in words.
import { wholeText } from '../base/format.js';
import { settings } from './settings.js';

// What went wrong. status 0: there was no answer at all.
export class Problem extends Error {
  constructor(message, status = 0, code = '') {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export function headers() {
  const out = { 'Content-Type': 'application/json' };
  if (settings.apiKey) out.Authorization = `Bearer ${settings.apiKey}`;
  return out;
}

async function refusal(response) {
  const text = await response.text();
  try {
    const { message, code } = JSON.parse(text).error;
    return new Problem(message, response.status, code ?? '');
  } catch {
    return new Problem(text.slice(0, 500) || response.statusText, response.status);  // not ours
  }
}

async function answered(path, options) {
  let response;
  try {
    response = await fetch(path, { headers: headers(), ...options });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Problem(error.message, 0, 'unreachable');
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

export async function getJson(path, signal) {
  return (await answered(path, { signal })).json();
}

// The data of each event. A stream that ends without [DONE] was cut.
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let pending = '';
  while (true) {
    const { value, done } = await reader.read();
    if (done) throw new Problem('the stream ended early', 0, 'cut');
    pending += value;
    const parts = pending.split('\n\n');
    pending = parts.pop();
    for (const part of parts) {
      if (!part.startsWith('data: ')) continue;  // a comment that keeps the connection alive
      const data = part.slice(6);
      if (data === '[DONE]') return;
      const event = JSON.parse(data);
      if (event.error) throw new Problem(event.error.message, 200, event.error.code ?? '');
      yield event;
    }
  }
}

export async function* post(path, body, signal) {
  const response = await answered(path, { method: 'POST', body: JSON.stringify(body), signal });
  try {
    yield* events(response);
  } catch (error) {
    if (error.name === 'AbortError' || error instanceof Problem) throw error;
    throw new Problem(error.message, 0, 'cut');
  }
}

// The server's numbers, said shorter; its own words where there are none to be found.
function tooLong(message) {
  const [, context, prompt, answer] = message.match(
    /context is (\d+) tokens, but the prompt has (\d+)(?: and the answer may have (\d+))?/) ?? [];
  if (!prompt) return `The context is full: ${message}.`;
  const has = `The conversation has ${wholeText(Number(prompt))} tokens`;
  const fits = `the context holds ${wholeText(Number(context))}`;
  if (!answer) return `The context is full. ${has}, ${fits}: there is no room for an answer.`;
  return `${has}, ${fits}: an answer of ${wholeText(Number(answer))} does not fit. Allow a shorter \
one in the settings, or shorten the conversation.`;
}

// What happened, for people.
export function explain({ message, status, code }) {
  if (code === 'unreachable') return 'The server does not answer. Is thimble still running?';
  if (code === 'cut') return 'The connection ended before the answer was complete.';
  if (code === 'context_length_exceeded') return tooLong(message);
  if (status === 401) return 'The server asks for its API key, or this one is wrong.';
  if (status === 429) return `The server has its hands full: ${message}. Try again in a moment.`;
  if (code === 'out_of_memory') return `The server has no memory left for this: ${message}.`;
  if (status === 503) return `The server takes no requests now: ${message}.`;
  return status && status !== 200 ? `${message} (${status})` : message;
}
