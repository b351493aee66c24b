"""The official Python SDK holds sessions against `windlass sim gemini-live`. Owns what that SDK must see; knows nothing
of the simulator beyond its scripts. Needs WINDLASS_BINARY. The SDK sends many of its field names in snake_case."""

import array
import asyncio
import contextlib
import os
import pathlib
import re
import subprocess
import unittest

from google import genai
from google.genai import errors, types

WAIT_SECONDS = 10
MODEL = "gemini-3.8-live"
HERE = pathlib.Path(__file__).parent
TOOLS = [
    types.Tool(
        function_declarations=[
            types.FunctionDeclaration(
                name="lookup_order",
                description="Finds an order by its number.",
                behavior=types.Behavior.BLOCKING,
                parameters=types.Schema(
                    type=types.Type.OBJECT,
                    properties={"number": types.Schema(type=types.Type.STRING)},
                    required=["number"],
                ),
            ),
            types.FunctionDeclaration(
                name="make_report",
                description="Writes a report; takes a while.",
                behavior=types.Behavior.NON_BLOCKING,
                parameters_json_schema={
                    "type": "object",
                    "properties": {"pages": {"type": "integer"}},
                    "additionalProperties": False,
                },
            ),
        ]
    )
]


def pcm(milliseconds, level):
    """Sound as loud as `level`: a square wave at 16 kHz."""
    samples = [level if index % 32 < 16 else -level for index in range(16 * milliseconds)]
    return array.array("h", samples).tobytes()


class Turn:
    """What a session received up to the end of one turn of the model."""

    def __init__(self):
        self.said = ""
        self.heard = ""
        self.audio = b""
        self.interrupted = False
        self.generated = False


class GeminiLive(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        # Making a client takes longer than what asyncio's debug mode, on in these tests, finds worth a line.
        asyncio.get_running_loop().slow_callback_duration = WAIT_SECONDS

    def serve(self, script):
        binary = os.environ["WINDLASS_BINARY"]
        command = [binary, "sim", "gemini-live", "--listen", "127.0.0.1:0"]
        server = subprocess.Popen(
            [*command, "--script", HERE / "scripts" / script], stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(server.wait)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.kill)
        line = server.stdout.readline()
        self.assertRegex(line, r"^listening on ws://\S+$")
        return line.strip().removeprefix("listening on ")

    @contextlib.asynccontextmanager
    async def connect(self, address, api_key="test-key", version="v1", **config):
        client = genai.Client(
            api_key=api_key, http_options=types.HttpOptions(api_version=version)
        )
        # The SDK insists on TLS; for a loopback address its two decisions are replaced.
        client._api_client._websocket_base_url = lambda *_, **__: address
        client._api_client._websocket_ssl_ctx = {}
        settings = {
            "response_modalities": [types.Modality.AUDIO],
            "output_audio_transcription": types.AudioTranscriptionConfig(),
            "input_audio_transcription": types.AudioTranscriptionConfig(),
            "tools": TOOLS,
        }
        model = config.pop("model", MODEL)
        settings |= config
        async with asyncio.timeout(WAIT_SECONDS):
            live = client.aio.live.connect(model=model, config=types.LiveConnectConfig(**settings))
            session = await live.__aenter__()
        try:
            yield session
        finally:
            await live.__aexit__(None, None, None)

    async def until(self, session, read):
        """The first thing that `read` finds in a message."""
        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                async for message in session.receive():
                    if found := read(message):
                        return found

    async def turn(self, session):
        turn = Turn()

        def read(message):
            content = message.server_content
            if not content:
                return False
            if content.output_transcription:
                turn.said += content.output_transcription.text or ""
            if content.input_transcription:
                turn.heard += content.input_transcription.text or ""
            for part in content.model_turn.parts if content.model_turn else []:
                if part.inline_data:
                    turn.audio += part.inline_data.data
            turn.interrupted |= bool(content.interrupted)
            turn.generated |= bool(content.generation_complete)
            return content.turn_complete

        await self.until(session, read)
        return turn

    async def call(self, session):
        calls = await self.until(
            session, lambda message: message.tool_call and message.tool_call.function_calls
        )
        return calls[0]

    async def say(self, session, text):
        await session.send_client_content(
            turns=types.Content(role="user", parts=[types.Part(text=text)]), turn_complete=True
        )

    async def speak(self, session):
        sound = pcm(200, 3) + pcm(600, 6000) + pcm(1000, 3)
        for start in range(0, len(sound), 3200):
            blob = types.Blob(data=sound[start : start + 3200], mime_type="audio/pcm;rate=16000")
            await session.send_realtime_input(audio=blob)

    @staticmethod
    def answer(call, output, **fields):
        return types.FunctionResponse(
            id=call.id, name=call.name, response={"output": output}, **fields
        )

    async def test_a_session_calls_a_tool_and_answers_with_sound_and_words(self):
        address = self.serve("session.yaml")
        for version in ["v1alpha", "v1beta", "v1"]:
            async with self.connect(
                address,
                version=version,
                speech_config=types.SpeechConfig(
                    language_code="en-US",
                    voice_config=types.VoiceConfig(
                        prebuilt_voice_config=types.PrebuiltVoiceConfig(voice_name="Puck")
                    ),
                ),
                realtime_input_config=types.RealtimeInputConfig(
                    automatic_activity_detection=types.AutomaticActivityDetection(
                        silence_duration_ms=300
                    )
                ),
                context_window_compression=types.ContextWindowCompressionConfig(
                    trigger_tokens=25600, sliding_window=types.SlidingWindow(target_tokens=12800)
                ),
            ) as session:
                await self.say(session, "Where is my order?")
                call = await self.call(session)
                self.assertEqual((call.name, call.args), ("lookup_order", {"number": "A7"}))
                self.assertTrue(re.fullmatch(r"function-call-\d{1,20}", call.id))
                await session.send_tool_response(
                    function_responses=[self.answer(call, {"status": "shipped"})]
                )
                turn = await self.turn(session)
                self.assertEqual(turn.said, "Your order has been shipped.")
                self.assertGreater(len(turn.audio), 10_000)
                self.assertTrue(turn.generated and not turn.interrupted)

    async def test_speech_is_heard_transcribed_and_answered(self):
        async with self.connect(self.serve("session.yaml")) as session:
            await self.speak(session)
            turn = await self.turn(session)
            self.assertEqual((turn.heard, turn.said), ("What time is it?", "It is noon."))

    async def test_a_result_of_a_non_blocking_call_is_voiced_as_its_scheduling_says(self):
        address = self.serve("session.yaml")
        scheduling = types.FunctionResponseScheduling
        for wish in [scheduling.WHEN_IDLE, scheduling.INTERRUPT]:
            async with self.connect(address) as session:
                await session.send_realtime_input(text="the report")
                call = await self.call(session)
                self.assertEqual(call.args, {"pages": 2})
                self.assertEqual((await self.turn(session)).said, "I am working on it.")
                await session.send_tool_response(
                    function_responses=[self.answer(call, {"summary": "all well"}, scheduling=wish)]
                )
                self.assertEqual((await self.turn(session)).said, "The report says all well.")
        async with self.connect(address) as session:
            await session.send_realtime_input(text="the report")
            call = await self.call(session)
            await self.turn(session)
            await session.send_tool_response(
                function_responses=[
                    self.answer(
                        call, {"summary": "quiet"}, scheduling=scheduling.SILENT, will_continue=False
                    )
                ]
            )
            await session.send_realtime_input(text="do you remember?")
            self.assertEqual((await self.turn(session)).said, "You mean quiet.")

    async def test_a_call_is_taken_back_by_its_id(self):
        async with self.connect(self.serve("session.yaml")) as session:
            await session.send_realtime_input(text="I changed my mind")
            call = await self.call(session)
            ids = await self.until(
                session,
                lambda message: message.tool_call_cancellation
                and message.tool_call_cancellation.ids,
            )
            self.assertEqual(ids, [call.id])
            await session.send_tool_response(function_responses=[self.answer(call, 1)])
            self.assertEqual((await self.turn(session)).said, "Never mind then.")

    async def test_speech_interrupts_an_answer(self):
        async with self.connect(self.serve("talkative.yaml")) as session:
            await session.send_realtime_input(text="a story")
            await self.until(
                session,
                lambda message: message.server_content and message.server_content.model_turn,
            )
            await self.speak(session)
            cut = await self.turn(session)
            self.assertTrue(cut.interrupted and not cut.generated)
            self.assertEqual((await self.turn(session)).said, "Yes?")

    async def test_close_codes_and_reasons_reach_the_client(self):
        address = self.serve("session.yaml")
        for config, code, reason in [
            ({"response_modalities": [types.Modality.TEXT]}, 1007, "response modalities (TEXT)"),
            ({"model": "gemini-none"}, 1008, "models/gemini-none is not found"),
            (
                {"thinking_config": types.ThinkingConfig(thinking_level=types.ThinkingLevel.LOW)},
                1007,
                "Thinking level is not supported",
            ),
        ]:
            with self.assertRaises(errors.APIError) as caught:
                async with self.connect(address, **config):
                    self.fail("the session opened")
            self.assertEqual(caught.exception.code, code)
            self.assertIn(reason, str(caught.exception))
        with self.assertRaisesRegex(Exception, "401"):
            async with self.connect(address, api_key="bad-key"):
                self.fail("the session opened")
        with self.assertRaises(errors.APIError) as caught:
            async with self.connect(address) as session:
                await session.send_realtime_input(text="break")
                await self.turn(session)
        self.assertEqual(caught.exception.code, 1011)

    async def test_a_session_survives_go_away_through_its_handle(self):
        address = self.serve("session.yaml")
        resumption = types.SessionResumptionConfig

        def handle_of(message):
            update = message.session_resumption_update
            return update and update.resumable and update.new_handle

        async with self.connect(address, session_resumption=resumption()) as session:
            await session.send_realtime_input(text="my name is Nora")
            await self.turn(session)
            handle = await self.until(session, handle_of)
            await session.send_realtime_input(text="leave")
            left = await self.until(
                session, lambda message: message.go_away and message.go_away.time_left
            )
            self.assertEqual(left, "0.200s")
            with self.assertRaises(errors.APIError) as caught:
                await self.until(session, lambda _: False)
            self.assertEqual(caught.exception.code, 1011)
        async with self.connect(address, session_resumption=resumption(handle=handle)) as session:
            turn = await self.turn(session)
            self.assertEqual(turn.said, "Welcome back. You said: my name is Nora")


if __name__ == "__main__":
    unittest.main()
