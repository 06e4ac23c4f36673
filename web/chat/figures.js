// What an answer cost, in one line.
import { plural, rateText, secondsText, wholeText } from '../base/format.js';

const kEnds = {
  length: 'cut at the longest length', stopped: 'stopped', tool_calls: 'waits for a tool',
};

export function speedTexts({ tokens, firstMs, decodeMs }) {
  const parts = [];
  if (tokens > 1 && decodeMs > 0) {
    parts.push(`${rateText((tokens - 1) * 1000 / decodeMs)} tokens/s`);
  }
  if (firstMs !== undefined) parts.push(`first token ${secondsText(firstMs)}`);
  return parts;
}

export function figureTexts({ stats = {}, end }) {
  const parts = [`${stats.counted ? '' : 'about '}${plural(stats.tokens ?? 0, 'token')}`];
  parts.push(...speedTexts(stats));
  if (stats.cached) {
    parts.push(`${wholeText(stats.cached)} of ${wholeText(stats.prompt)} prompt tokens cached`);
  } else if (stats.prompt) {
    parts.push(plural(stats.prompt, 'prompt token'));
  }
  if (stats.replayed) parts.push(`${wholeText(stats.replayed)} replayed`);
  if (stats.exact === false) parts.push('bounded replay');
  if (kEnds[end]) parts.push(kEnds[end]);
  return parts;
}

// The reasoning's fold: how long it took, or takes.
export function thoughtText({ stats = {}, end }, thinking) {
  if (thinking) return 'Thinking';
  const length = stats.thoughtTokens ? `, ${plural(stats.thoughtTokens, 'token')}` : '';
  if (end === 'stopped' && stats.thoughtMs === undefined) return `Thought${length}`;
  return `Thought for ${secondsText(stats.thoughtMs ?? 0)}${length}`;
}
