// One answer that is being made: reads the stream into a turn and tells who watches.
//
// The turn alone holds what came, so an answer goes on while another conversation is on screen, and
// what had come when it was stopped or broke stays.
import { post } from './api.js';

const kCallsMax = 128;
const kTellMs = 1000;  // between two figures of an answer that does not move

export class Run {
  // onChange() is called for whatever changed, once a frame; onEnd() once, last.
  constructor(turn, [path, body], { onChange, onEnd }) {
    Object.assign(this, { turn, path, body, onChange, onEnd });
    this.abort = new AbortController();
    this.started = performance.now();
    this.first = 0;
    this.last = 0;
    this.deltas = 0;
    this.thoughtDeltas = 0;
    this.frame = 0;
    this.usage = null;
    this.reason = '';
    turn.stats = {};
  }

  async go() {
    const ticker = setInterval(() => this.tell(), kTellMs);
    try {
      for await (const event of post(this.path, this.body, this.abort.signal)) this.take(event);
      this.turn.end = this.reason || 'stop';
    } catch (error) {
      this.turn.end = error.name === 'AbortError' ? 'stopped' : 'error';
      if (this.turn.end === 'error') {
        const { message, status = 0, code = '' } = error;
        this.turn.problem = { message, status, code };
      }
    }
    clearInterval(ticker);
    cancelAnimationFrame(this.frame);
    this.measure();
    this.onEnd(this);
  }

  stop() {
    this.abort.abort();
  }

  take(event) {
    this.usage = event.usage ?? this.usage;
    const choice = event.choices?.[0];
    if (!choice) return;
    this.reason = choice.finish_reason ?? this.reason;
    const delta = choice.delta ?? {};
    const reasoning = delta.reasoning_content ?? '';
    const content = delta.content ?? choice.text ?? '';
    if (!reasoning && !content && !delta.tool_calls) return;
    this.last = performance.now();
    this.first ||= this.last;
    ++this.deltas;
    if (reasoning) ++this.thoughtDeltas;
    if ((content || delta.tool_calls) && this.turn.reasoning) this.endThoughts();
    if (reasoning) this.turn.reasoning = (this.turn.reasoning ?? '') + reasoning;
    this.turn.content += content;
    for (const part of delta.tool_calls ?? []) this.takeCall(part);
    this.tell();
  }

  takeCall({ index, id, function: called = {} }) {
    if (!(index >= 0 && index < kCallsMax)) return;
    this.turn.calls ??= [];
    const call = this.turn.calls[index] ??= { id: '', name: '', arguments: '' };
    call.id ||= id ?? '';
    call.name ||= called.name ?? '';
    call.arguments += called.arguments ?? '';
  }

  endThoughts() {
    this.turn.stats.thoughtMs ??= performance.now() - this.first;
  }

  tell() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.measure();
      this.onChange(this);
    });
  }

  // Figures so far: counted by what came, until the server's own count is there.
  measure() {
    const { stats, reasoning } = this.turn;
    if (this.first) {
      stats.firstMs = this.first - this.started;
      stats.decodeMs = this.last - this.first;
    }
    stats.tokens = this.usage?.completion_tokens ?? this.deltas;
    stats.counted = Boolean(this.usage);
    if (reasoning) {
      stats.thoughtTokens = this.usage?.completion_tokens_details?.reasoning_tokens
        ?? this.thoughtDeltas;
      if (this.turn.end) this.endThoughts();
    }
    if (this.usage) this.measurePrompt(stats);
  }

  measurePrompt(stats) {
    const { prompt_tokens: prompt, total_tokens: total, thimble } = this.usage;
    stats.prompt = prompt;
    stats.total = total;
    stats.cached = this.usage.prompt_tokens_details?.cached_tokens ?? 0;
    if (thimble) {
      stats.replayed = thimble.replayed_tokens;
      stats.exact = thimble.exact;
    }
  }
}
