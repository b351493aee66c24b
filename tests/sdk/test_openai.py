"""The official Python SDK talks to `windlass sim openai` and `windlass sim openai-realtime`. Owns what that SDK must see;
knows nothing of the simulators beyond their scripts. Needs WINDLASS_BINARY."""

import asyncio
import base64
import os
import pathlib
import re
import subprocess
import unittest

import openai

WAIT_SECONDS = 10
# Newer ones refuse tools over Chat Completions.
MODEL = "gpt-4.1"
REASONING_MODEL = "gpt-5.6"
REALTIME_MODEL = "gpt-realtime-2.1"
HERE = pathlib.Path(__file__).parent
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "lookup_order",
            "description": "Finds an order.",
            "parameters": {
                "type": "object",
                "properties": {"number": {"type": "string"}},
                "required": ["number"],
                "additionalProperties": False,
            },
        },
    }
]


class Openai(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        # Making a client takes longer than what asyncio's debug mode, on in these tests, finds worth a line.
        asyncio.get_running_loop().slow_callback_duration = WAIT_SECONDS

    def serve(self, provider, script):
        command = [os.environ["WINDLASS_BINARY"], "sim", provider, "--listen", "127.0.0.1:0"]
        command += ["--script", str(HERE / "scripts" / script)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        address = re.fullmatch(r"listening on \w+://(\S+)\n", server.stdout.readline())
        self.assertIsNotNone(address)
        return address[1]

    def client(self, provider, script, api_key="test-key"):
        address = self.serve(provider, script)
        return openai.AsyncOpenAI(api_key=api_key, base_url=f"http://{address}/v1", max_retries=0)

    async def test_a_stream_with_two_calls_is_gathered_and_answered(self):
        client = self.client("openai", "look.yaml")
        messages = [{"role": "user", "content": "Where are my orders?"}]
        async with client.chat.completions.stream(model=MODEL, messages=messages, tools=TOOLS) as stream:
            answer = await stream.get_final_completion()
        message = answer.choices[0].message
        self.assertEqual(message.content, "Let me look.")
        self.assertEqual(
            [call.function.arguments for call in message.tool_calls],
            ['{"number":"17"}', '{"number":"18"}'],
        )
        messages.append(
            {
                "role": "assistant",
                "content": message.content,
                "tool_calls": [
                    {
                        "id": call.id,
                        "type": "function",
                        "function": {"name": call.function.name, "arguments": call.function.arguments},
                    }
                    for call in message.tool_calls
                ],
            }
        )
        for call in message.tool_calls:
            messages.append({"role": "tool", "tool_call_id": call.id, "content": "on its way"})
        second = await client.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS)
        self.assertEqual(second.choices[0].message.content, "Both are on their way.")
        with self.assertRaises(openai.BadRequestError):
            await client.chat.completions.create(model=MODEL, messages=messages[:-1], tools=TOOLS)

    async def test_a_response_is_gathered_and_what_was_reasoned_goes_back(self):
        client = self.client("openai", "look.yaml")
        tools = [{"type": "function", "strict": True, **TOOLS[0]["function"]}]
        wanted = {
            "model": REASONING_MODEL,
            "tools": tools,
            "store": False,
            "include": ["reasoning.encrypted_content"],
        }
        messages = [{"role": "user", "content": "Where are my orders?"}]
        async with client.responses.stream(input=messages, **wanted) as stream:
            first = await stream.get_final_response()
        self.assertEqual(first.output_text, "Let me look.")
        kinds = [item.type for item in first.output]
        self.assertEqual(kinds, ["reasoning", "message", "function_call", "function_call"])
        messages += [item.model_dump(exclude_none=True) for item in first.output]
        for call in first.output[2:]:
            messages.append({"type": "function_call_output", "call_id": call.call_id, "output": "on its way"})
        second = await client.responses.create(input=messages, **wanted)
        self.assertEqual(second.output_text, "Both are on their way.")
        with self.assertRaises(openai.BadRequestError):
            await client.responses.create(input=messages[:-1], **wanted)

    async def test_failures_are_what_the_sdk_takes_them_for(self):
        client = self.client("openai", "text_faults.yaml")
        for text, kind in [
            ("busy", openai.InternalServerError),
            ("limit", openai.RateLimitError),
            ("page", openai.InternalServerError),
        ]:
            with self.subTest(text), self.assertRaises(kind):
                await client.chat.completions.create(
                    model=MODEL, messages=[{"role": "user", "content": text}]
                )

    async def test_a_realtime_session_is_held(self):
        client = self.client("openai-realtime", "look.yaml")
        async with asyncio.timeout(WAIT_SECONDS), client.realtime.connect(model=REALTIME_MODEL) as connection:
            await connection.session.update(
                session={"type": "realtime", "instructions": "Be brief.", "output_modalities": ["audio"]}
            )
            await connection.conversation.item.create(
                item={
                    "type": "message",
                    "role": "user",
                    "content": [{"type": "input_text", "text": "Hello"}],
                }
            )
            await connection.response.create()
            kinds, pcm = set(), b""
            async for event in connection:
                kinds.add(event.type)
                if event.type == "response.output_audio.delta":
                    pcm += base64.b64decode(event.delta)
                if event.type == "response.done":
                    self.assertEqual(event.response.status, "completed")
                    transcript = event.response.output[0].content[0].transcript
                    self.assertEqual(transcript, "Good day to you.")
                    break
        self.assertGreater(len(pcm), 9_600)
        self.assertLessEqual({"session.created", "session.updated", "conversation.item.added"}, kinds)


if __name__ == "__main__":
    unittest.main()
