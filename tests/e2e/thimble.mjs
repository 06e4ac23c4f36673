// The real binary around a random nano model, which each test file makes once and then removes.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

const binary = process.env.THIMBLE;
assert.ok(binary, 'THIMBLE names the binary to test; tests/e2e/run.sh sets it');

const folder = mkdtempSync(join(tmpdir(), 'thimble-e2e-'));
export const modelDir = join(folder, 'nano');
execFileSync(binary, ['init', '--preset', 'nano', '--out', modelDir], { stdio: 'ignore' });
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));

const running = new Set();

// For afterEach: a failed test must not leave a server that keeps the runner waiting.
export function killLeftovers() {
  for (const server of running) server.child.kill('SIGKILL');
}

// All of a message's body, with a pause after each piece for a slow reader.
export async function textOf(message, pauseMs = 0) {
  const parts = [];
  for await (const part of message) {
    parts.push(part);
    if (pauseMs) await sleep(pauseMs);
  }
  return Buffer.concat(parts).toString();
}

export class Server {
  // Resolves once the server has printed its address.
  static async start(...flags) {
    const port = flags.includes('--port') ? [] : ['--port', '0'];
    const child = spawn(binary, ['serve', '--model', modelDir, ...port, ...flags],
      { stdio: ['ignore', 'pipe', 'pipe'] });
    const server = new Server(child);
    for await (const line of createInterface({ input: child.stdout })) {
      const address = line.match(/ at (http:\/\/\S+)$/)?.[1];
      if (address) {
        server.url = address;
        return server;
      }
    }
    await server.closed;
    throw new Error(`the server ended before it listened:\n${server.log}`);
  }

  constructor(child) {
    this.child = child;
    this.log = '';
    this.exit = once(child, 'exit');
    this.closed = once(child, 'close');  // after 'exit', once all of its output was read
    running.add(this);
    child.on('exit', () => running.delete(this));
    child.stderr.on('data', (bytes) => { this.log += bytes; });
  }

  // Exit status after SIGTERM.
  async stop() {
    this.child.kill('SIGTERM');
    const [status, signal] = await this.exit;
    return signal ?? status;
  }

  async health() {
    return (await fetch(`${this.url}/health`)).json();
  }

  // True once nothing runs or waits.
  async becomesIdle(ms = 5000) {
    const deadline = Date.now() + ms;
    while (Date.now() < deadline) {
      const { requests } = await this.health();
      if (requests.running === 0 && requests.waiting === 0) return true;
      await sleep(10);
    }
    return false;
  }

  post(path, body, options = {}) {
    return fetch(`${this.url}${path}`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify(body),
      ...options,
    });
  }
}
