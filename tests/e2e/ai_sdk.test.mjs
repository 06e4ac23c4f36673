// Aim: the AI SDK's OpenAI-compatible provider is served as it expects. Method: the npm packages
// against the real binary with a random model: texts, streams, reasoning, a call that is forced, an
// object of a schema.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  createOpenAICompatible, OpenAICompatibleChatLanguageModel,
} from '@ai-sdk/openai-compatible';
import { generateObject, generateText, streamText, tool } from 'ai';
import { z } from 'zod';
import { Server } from './thimble.mjs';

let server;
let model;

before(async () => {
  server = await Server.start('--context', '4096', '--reasoning', 'off');
  const provider = createOpenAICompatible({ name: 'thimble', baseURL: `${server.url}/v1` });
  model = provider('nano');
});
after(async () => {
  assert.equal(await server.stop(), 0, server.log);
});

const prompt = 'Name two primes.';
const settings = { maxTokens: 40, seed: 5, temperature: 0.8, maxRetries: 0 };

test('a stream is the whole answer, for the same seed', async () => {
  const whole = await generateText({ model, prompt, ...settings });
  assert.match(whole.finishReason, /^(stop|length)$/);
  assert.equal(whole.usage.promptTokens, 20);
  const stream = streamText({ model, prompt, ...settings });
  let text = '';
  for await (const piece of stream.textStream) text += piece;
  assert.equal(text, whole.text);
  assert.equal(await stream.finishReason, whole.finishReason);
});

test('reasoning is told from the answer', async () => {
  const providerOptions = { thimble: { reasoningEffort: 'high' } };
  const { reasoning, text } = await generateText({ model, prompt, ...settings, providerOptions });
  assert.ok(reasoning.length > 0);
  assert.equal(typeof text, 'string');
});

const weather = tool({
  description: 'Weather of a city', parameters: z.object({ city: z.string() }),
});

// A random model fills arguments with noise: a call is whole, or was cut by the limit.
test('a forced call arrives as a call, whole or not at all', async () => {
  const stream = streamText({
    model, prompt, ...settings, maxTokens: 120, tools: { weather },
    toolChoice: { type: 'tool', toolName: 'weather' }, onError: () => {},
  });
  const kinds = new Set();
  for await (const part of stream.fullStream) kinds.add(part.type);
  assert.ok(kinds.has('finish') || kinds.has('error'), [...kinds].join(' '));
  assert.ok(!kinds.has('text-delta'), 'markup of a call leaked into the text');
});

test('an object is of its schema', async () => {
  const schema = z.object({
    kind: z.enum(['prime', 'composite']), values: z.array(z.boolean()).length(2),
  });
  const structured = new OpenAICompatibleChatLanguageModel('nano', {}, {
    provider: 'thimble', url: ({ path }) => `${server.url}/v1${path}`, headers: () => ({}),
    supportsStructuredOutputs: true, defaultObjectGenerationMode: 'json',
  });
  const { object, finishReason } = await generateObject({
    model: structured, prompt: 'Answer as json.', schema, ...settings, maxTokens: 200,
  });
  assert.equal(finishReason, 'stop');
  assert.ok(['prime', 'composite'].includes(object.kind));
  assert.equal(object.values.length, 2);
});
