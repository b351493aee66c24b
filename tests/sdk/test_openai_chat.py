"""OpenAI's Python SDK talks to `windlass serve`. Owns what that SDK must see. Needs WINDLASS_BINARY."""

import json
import os
import re
import subprocess
import tempfile
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from openai import OpenAI

ROOT = Path(__file__).resolve().parents[2]


class Model(BaseHTTPRequestHandler):
    """Answers every request with the same three words."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        chunks = [
            {"choices": [{"index": 0, "delta": {"content": word}, "finish_reason": None}]}
            for word in ["Colin", " Archer", " did."]
        ]
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


class OpenaiChat(unittest.TestCase):
    def setUp(self):
        self.model = ThreadingHTTPServer(("127.0.0.1", 0), Model)
        threading.Thread(target=self.model.serve_forever, daemon=True).start()
        self.data = tempfile.TemporaryDirectory()
        model_url = f"http://127.0.0.1:{self.model.server_port}/v1"
        command = [os.environ["WINDLASS_BINARY"], "serve", "--listen", "127.0.0.1:0", "--data", self.data.name]
        command += ["--text-provider", "openai", "--text-provider-url", model_url]
        self.server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        url = re.search(r"http://\S+", self.server.stdout.readline()).group(0)
        self.client = OpenAI(base_url=f"{url}/v1", api_key="none")

    def tearDown(self):
        self.server.terminate()
        self.server.wait()
        self.server.stdout.close()
        self.model.shutdown()
        self.model.server_close()
        self.data.cleanup()

    def test_an_answer_comes_whole_and_streamed(self):
        messages = [{"role": "user", "content": "Who designed the Fram?"}]
        whole = self.client.chat.completions.create(model="any", messages=messages)
        self.assertEqual(whole.choices[0].message.content, "Colin Archer did.")
        stream = self.client.chat.completions.create(model="any", messages=messages, stream=True)
        pieces = [chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices]
        self.assertEqual("".join(pieces), "Colin Archer did.")
        self.assertGreater(len(pieces), 2)


if __name__ == "__main__":
    unittest.main()
