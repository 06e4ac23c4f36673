// A server between the page and the binary: passes everything on, but for answers that a test
// plays step by step, and paths that it answers itself. The page cannot tell the difference.
import { once } from 'node:events';
import { createServer, request as httpRequest } from 'node:http';
import { textOf } from './thimble.mjs';

// One answer to a chat request, as the test plays it.
class Play {
  constructor(response) {
    this.response = response;
  }

  start() {
    if (this.response.headersSent) return;
    this.response.writeHead(200, { 'Content-Type': 'text/event-stream' });
  }

  event(data) {
    this.start();
    this.response.write(`data: ${JSON.stringify(data)}\n\n`);
  }

  delta(delta) {
    this.event({ choices: [{ index: 0, delta, finish_reason: null }] });
  }

  think(text) {
    this.delta({ reasoning_content: text });
  }

  say(text) {
    this.delta({ content: text });
  }

  // A whole call, its arguments in two pieces as a stream has them.
  call(index, id, name, text) {
    const half = Math.floor(text.length / 2);
    const called = { name, arguments: '' };
    this.delta({ tool_calls: [{ index, id, type: 'function', function: called }] });
    for (const part of [text.slice(0, half), text.slice(half)]) {
      this.delta({ tool_calls: [{ index, function: { arguments: part } }] });
    }
  }

  finish(reason = 'stop', usage = null) {
    this.event({ choices: [{ index: 0, delta: {}, finish_reason: reason }] });
    if (usage) this.event({ choices: [], usage });
    this.response.end('data: [DONE]\n\n');
  }

  refuse(status, error) {
    this.response.writeHead(status, { 'Content-Type': 'application/json' });
    this.response.end(JSON.stringify({ error }));
  }

  cut() {
    this.response.destroy();
  }

  // Until the client hung up.
  async left() {
    if (!this.response.closed) await once(this.response, 'close');
  }
}

export class Stage {
  // `target`: where the binary listens.
  static async start(target) {
    const stage = new Stage(target);
    await once(stage.http.listen(0, '127.0.0.1'), 'listening');
    stage.url = `http://127.0.0.1:${stage.http.address().port}`;
    return stage;
  }

  constructor(target) {
    this.target = target;
    this.plays = [];          // for the next chat requests: async (play, body)
    this.asked = [];          // bodies of all chat requests
    this.paths = new Map();   // by path: () => value answered as JSON, or {status, error}
    this.http = createServer((request, response) => {
      this.answer(request, response).catch((error) => {
        if (!response.headersSent) response.writeHead(502);
        response.end(String(error));
      });
    });
  }

  async answer(request, response) {
    const path = request.url.split('?')[0];
    if (path === '/v1/chat/completions' && request.method === 'POST') {
      const body = await textOf(request);
      this.asked.push(JSON.parse(body));
      const play = this.plays.shift();
      if (play) await play(new Play(response), this.asked.at(-1));
      else this.pass(request, response, body);
      return;
    }
    const own = this.paths.get(path);
    if (!own) {
      this.pass(request, response, await textOf(request));
      return;
    }
    const value = own();
    response.writeHead(value.status ?? 200, { 'Content-Type': 'application/json' });
    response.end(JSON.stringify(value));
  }

  pass(request, response, body) {
    // The Host too, as a proxy has to: the page's origin is told by it.
    const { method, headers } = request;
    const out = httpRequest(`${this.target}${request.url}`, { method, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    out.on('error', () => response.destroy());
    response.on('close', () => out.destroy());
    out.end(body);
  }

  // The next chat request gets this answer: play(async (play, body) => ...).
  play(how) {
    this.plays.push(how);
  }

  // The same, with this text (and reasoning) at once.
  playText(content, reasoning = '') {
    this.play((play) => {
      if (reasoning) play.think(reasoning);
      play.say(content);
      play.finish();
    });
  }

  // As new, for the next test.
  reset() {
    this.plays = [];
    this.asked = [];
    this.paths.clear();
    this.http.closeIdleConnections();
  }

  stop() {
    this.http.closeAllConnections();
    this.http.close();
  }
}
