// The official JavaScript SDKs talk to `windlass sim openai` and `windlass sim gemini`. Owns what those SDKs must see; knows
// nothing of the simulators beyond their scripts. Needs WINDLASS_BINARY.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GoogleGenAI } from '@google/genai';
import OpenAI from 'openai';
import { serve } from './simulator.mjs';

// Newer ones refuse tools over Chat Completions.
const MODEL = 'gpt-4.1';
const REASONING_MODEL = 'gpt-5.6';
const PARAMETERS = {
  type: 'object',
  properties: { number: { type: 'string' } },
  required: ['number'],
  additionalProperties: false,
};
const TOOLS = [
  {
    type: 'function',
    function: { name: 'lookup_order', description: 'Finds an order.', parameters: PARAMETERS },
  },
];

async function openai(script, apiKey = 'test-key') {
  const address = await serve('openai', script);
  return new OpenAI({ apiKey, baseURL: `http://${address}/v1`, maxRetries: 0 });
}

const user = (content) => ({ role: 'user', content });

test('the SDK gathers a stream with two calls, and their results bring the answer', async () => {
  const client = await openai('look.yaml');
  const messages = [user('Where are my orders?')];
  const stream = client.chat.completions.stream({
    model: MODEL,
    messages,
    tools: TOOLS,
    stream_options: { include_usage: true },
  });
  const answer = await stream.finalChatCompletion();
  const [choice] = answer.choices;
  assert.equal(choice.finish_reason, 'tool_calls');
  assert.equal(choice.message.content, 'Let me look.');
  const calls = choice.message.tool_calls;
  assert.deepEqual(
    calls.map((call) => JSON.parse(call.function.arguments)),
    [{ number: '17' }, { number: '18' }],
  );
  assert.ok(answer.usage.total_tokens > 0);
  messages.push(choice.message);
  for (const call of calls) messages.push({ role: 'tool', tool_call_id: call.id, content: '{"ok":true}' });
  const second = await client.chat.completions.create({ model: MODEL, messages, tools: TOOLS });
  assert.equal(second.choices[0].message.content, 'Both are on their way.');
});

test('the SDK gathers a response, and what was reasoned goes back with the results', async () => {
  const client = await openai('look.yaml');
  const tools = [{ type: 'function', name: 'lookup_order', parameters: PARAMETERS, strict: true }];
  const wanted = { model: REASONING_MODEL, tools, store: false, include: ['reasoning.encrypted_content'] };
  const input = [user('Where are my orders?')];
  const first = await client.responses.stream({ ...wanted, input }).finalResponse();
  assert.equal(first.output_text, 'Let me look.');
  assert.deepEqual(
    first.output.map((item) => item.type),
    ['reasoning', 'message', 'function_call', 'function_call'],
  );
  assert.ok(first.usage.output_tokens_details.reasoning_tokens > 0);
  input.push(...first.output);
  for (const { call_id } of first.output.slice(2)) {
    input.push({ type: 'function_call_output', call_id, output: '{"ok":true}' });
  }
  const second = await client.responses.create({ ...wanted, input });
  assert.equal(second.output_text, 'Both are on their way.');
  const cut = input.toSpliced(2);
  await assert.rejects(client.responses.create({ ...wanted, input: cut }), { status: 400 });
  const chat = { model: REASONING_MODEL, messages: [user('Hi')], tools: TOOLS };
  await assert.rejects(client.chat.completions.create(chat), { status: 400, param: 'reasoning_effort' });
});

test('the SDK runs tools by itself', async () => {
  const client = await openai('look.yaml');
  const asked = [];
  const runner = client.chat.completions.runTools({
    model: MODEL,
    stream: true,
    messages: [user('Where are my orders?')],
    tools: [
      {
        type: 'function',
        function: {
          name: 'lookup_order',
          description: 'Finds an order.',
          parameters: PARAMETERS,
          parse: JSON.parse,
          function: ({ number }) => {
            asked.push(number);
            return `order ${number} is on its way`;
          },
        },
      },
    ],
  });
  assert.equal(await runner.finalContent(), 'Both are on their way.');
  assert.deepEqual(asked, ['17', '18']);
});

test('failures are what the SDK takes them for', async () => {
  const client = await openai('text_faults.yaml');
  const ask = (text) => client.chat.completions.create({ model: MODEL, messages: [user(text)] });
  await assert.rejects(ask('busy'), OpenAI.InternalServerError);
  await assert.rejects(ask('limit'), (error) => {
    assert.ok(error instanceof OpenAI.RateLimitError);
    return error.headers.get('retry-after') === '1';
  });
  await assert.rejects(ask('page'), { status: 502 });
  const stream = async (text) => {
    let said = '';
    const request = { model: MODEL, messages: [user(text)], stream: true };
    try {
      const chunks = await client.chat.completions.create(request);
      for await (const chunk of chunks) said += chunk.choices[0]?.delta.content ?? '';
    } catch (error) {
      return { said, error };
    }
    return { said };
  };
  const middle = await stream('middle');
  assert.equal(middle.said, 'Well');
  assert.ok(middle.error instanceof OpenAI.APIError);
  assert.ok((await stream('cut')).error);
  const stranger = await openai('look.yaml', 'bad-key');
  await assert.rejects(
    stranger.chat.completions.create({ model: MODEL, messages: [user('Hi')] }),
    OpenAI.AuthenticationError,
  );
});

test('the demo model answers the Gemini SDK, streaming and not', async () => {
  const address = await serve('gemini');
  const client = new GoogleGenAI({ apiKey: 'test-key', httpOptions: { baseUrl: `http://${address}` } });
  const request = { model: 'gemini-3.8-flash', contents: 'Hello' };
  const whole = await client.models.generateContent(request);
  assert.match(whole.text, /demo model/);
  let said = '';
  for await (const chunk of await client.models.generateContentStream(request)) said += chunk.text ?? '';
  assert.equal(said, whole.text);
});

test('the Gemini SDK sees calls and their signature, and sends results that are taken', async () => {
  const address = await serve('gemini', 'look.yaml');
  const client = new GoogleGenAI({ apiKey: 'test-key', httpOptions: { baseUrl: `http://${address}` } });
  const model = 'gemini-3.8-flash';
  const contents = [{ role: 'user', parts: [{ text: 'Where are my orders?' }] }];
  const config = {
    tools: [{ functionDeclarations: [{ name: 'lookup_order', parametersJsonSchema: PARAMETERS }] }],
  };
  const first = await client.models.generateContent({ model, contents, config });
  assert.equal(first.functionCalls.length, 2);
  contents.push(first.candidates[0].content);
  contents.push({
    role: 'user',
    parts: first.functionCalls.map(({ id, name }) => ({
      functionResponse: { id, name, response: { output: { ok: true } } },
    })),
  });
  const second = await client.models.generateContent({ model, contents, config });
  assert.equal(second.text, 'Both are on their way.');
  await assert.rejects(
    client.models.generateContent({ model, contents: contents.slice(0, 2), config }),
    { status: 400 },
  );
});

test('the Gemini SDK reads an interaction as a stream, and its steps go back with the results', async () => {
  const address = await serve('gemini', 'look.yaml');
  const client = new GoogleGenAI({ apiKey: 'test-key', httpOptions: { baseUrl: `http://${address}` } });
  const asked = {
    model: 'gemini-3.8-flash',
    store: false,
    tools: [{ type: 'function', name: 'lookup_order', description: 'Finds an order.', parameters: PARAMETERS }],
  };
  const input = [{ type: 'user_input', content: [{ type: 'text', text: 'Where are my orders?' }] }];
  const steps = [];
  let status;
  for await (const event of await client.interactions.create({ ...asked, input, stream: true })) {
    if (event.event_type === 'step.start') steps[event.index] = { ...event.step, text: '' };
    if (event.event_type === 'step.delta') steps[event.index].text += event.delta.text ?? event.delta.arguments ?? '';
    if (event.event_type === 'interaction.completed') status = event.interaction.status;
  }
  assert.equal(status, 'requires_action');
  assert.deepEqual(
    steps.map(({ type, text }) => [type, text]),
    [
      ['thought', ''],
      ['model_output', 'Let me look.'],
      ['function_call', '{"number":"17"}'],
      ['function_call', '{"number":"18"}'],
    ],
  );
  const first = await client.interactions.create({ ...asked, input });
  input.push(...first.steps);
  await assert.rejects(client.interactions.create({ ...asked, input }), { status: 400 });
  for (const { type, id, name } of first.steps) {
    const result = [{ type: 'text', text: '{"output":{"ok":true}}' }];
    if (type === 'function_call') input.push({ type: 'function_result', call_id: id, name, result });
  }
  const second = await client.interactions.create({ ...asked, input });
  assert.equal(second.steps.at(-1).content[0].text, 'Both are on their way.');
});
