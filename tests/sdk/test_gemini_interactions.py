"""The official Python SDK asks `windlass sim gemini` by Interactions. Owns what that SDK must see; knows nothing of the
simulator beyond its scripts. Needs WINDLASS_BINARY."""

import os
import pathlib
import re
import subprocess
import unittest

from google import genai

HERE = pathlib.Path(__file__).parent
ASKED = {
    "model": "gemini-3.8-flash",
    "store": False,
    "generation_config": {"thinking_level": "low"},
    "tools": [
        {
            "type": "function",
            "name": "lookup_order",
            "description": "Finds an order by its number.",
            "parameters": {"type": "object", "properties": {"number": {"type": "string"}}},
        }
    ],
}


class Interactions(unittest.TestCase):
    def setUp(self):
        command = [os.environ["WINDLASS_BINARY"], "sim", "gemini", "--listen", "127.0.0.1:0"]
        command += ["--script", str(HERE / "scripts" / "look.yaml")]
        self.server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        url = re.search(r"http://\S+", self.server.stdout.readline()).group(0)
        self.client = genai.Client(api_key="test-key", http_options={"base_url": url})

    def tearDown(self):
        self.server.terminate()
        self.server.wait()
        self.server.stdout.close()

    def test_a_stream_is_read_step_by_step(self):
        kinds, words, arguments, last = [], "", "", None
        for event in self.client.interactions.create(**ASKED, input="Where are my orders?", stream=True):
            self.assertFalse(getattr(event, "is_unknown", False), event)
            if event.event_type == "step.start":
                kinds.append(event.step.type)
            elif event.event_type == "step.delta":
                self.assertFalse(getattr(event.delta, "is_unknown", False), event)
                words += getattr(event.delta, "text", "")
                arguments += getattr(event.delta, "arguments", None) or ""
            elif event.event_type == "interaction.completed":
                last = event.interaction
        self.assertEqual(kinds, ["thought", "model_output", "function_call", "function_call"])
        self.assertEqual(words, "Let me look.")
        self.assertEqual(arguments, '{"number":"17"}{"number":"18"}')
        self.assertEqual(last.status, "requires_action")
        self.assertGreater(last.usage.total_thought_tokens, 0)

    def test_the_steps_of_an_answer_go_back_with_the_results(self):
        history = [{"type": "user_input", "content": [{"type": "text", "text": "Where are my orders?"}]}]
        first = self.client.interactions.create(**ASKED, input=history)
        history += [step.model_dump(exclude_none=True) for step in first.steps]
        with self.assertRaises(Exception) as refused:
            self.client.interactions.create(**ASKED, input=history)
        self.assertIn("function_result is missing", str(refused.exception))
        for step in first.steps:
            if step.type == "function_call":
                result = [{"type": "text", "text": '{"output":{"ok":true}}'}]
                history.append({"type": "function_result", "call_id": step.id, "name": step.name, "result": result})
        second = self.client.interactions.create(**ASKED, input=history)
        self.assertEqual(second.output_text, "Both are on their way.")


if __name__ == "__main__":
    unittest.main()
