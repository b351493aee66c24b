"""The handlers in docs/tools.md that are written in Python: a webhook service that checks signatures with the official package,
and a process with a package from PyPI. Owns what a call of each comes to. Needs WINDLASS_BINARY."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = (ROOT / "docs/tools.md").read_text()
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def block(language, text):
    """The block of the document in this language that holds this text."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", DOCUMENT, re.DOTALL | re.MULTILINE)
    return next(inside for inside in blocks if text in inside)


class Tools(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.base = Path(self.folder.name)

    def tool(self, name, parameter, files):
        directory = self.base / "tools" / name
        directory.mkdir(parents=True)
        schema = {
            "toolId": name.replace("-", "_"),
            "version": "1.0.0",
            "description": "Does one thing.",
            "category": "utility",
            "sideEffects": "none",
            "idempotent": True,
            "requiresConfirmation": False,
            "allowedModes": ["text"],
            "latencyBudgetMs": 2000,
            "parameters": {
                "type": "object",
                "additionalProperties": False,
                "required": [parameter],
                "properties": {parameter: {"type": "string"}},
            },
        }
        files = {"schema.json": json.dumps(schema), "guide.md": "# A tool\n\nDoes one thing.\n", **files}
        for file, text in files.items():
            (directory / file).write_text(text)
        return directory

    def call(self, tool, args, environment={}):
        """The answer to one call, as `windlass call` prints it."""
        command = [os.environ["WINDLASS_BINARY"], "call", tool, json.dumps(args), "--kb", ROOT / "kb"]
        done = subprocess.run(command, cwd=self.base, env={**os.environ, **environment}, capture_output=True)
        self.assertTrue(done.stdout, done.stderr.decode())
        return json.loads(done.stdout)

    def test_a_webhook_of_twenty_lines_checks_the_signature_and_answers(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        service = block("python", "standardwebhooks")
        self.assertLessEqual(len([line for line in service.splitlines() if line.strip()]), 20)
        self.tool("order-state", "order", {"handler.json": block("json", '"webhook"').replace("9001", str(port))})
        (self.base / "windlass.toml").write_text(f'[secrets.SHOP_WEBHOOK]\nhosts = ["127.0.0.1:{port}"]\n')
        environment = {"SHOP_WEBHOOK": SECRET, "WINDLASS_SECRET_SHOP_WEBHOOK": SECRET, "PORT": str(port)}
        program = subprocess.Popen(
            [sys.executable, "-c", service], env={**os.environ, **environment}, stderr=subprocess.DEVNULL
        )
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        while True:
            with socket.socket() as client:
                if client.connect_ex(("127.0.0.1", port)) == 0:
                    break
        found = self.call("order_state", {"order": "4711"}, environment)
        self.assertEqual(found["data"], {"state": "on its way"})
        missing = self.call("order_state", {"order": "1"}, environment)
        self.assertEqual(missing["error"]["type"], "NOT_FOUND")
        forged = {**environment, "WINDLASS_SECRET_SHOP_WEBHOOK": "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}
        refused = self.call("order_state", {"order": "4711"}, forged)
        self.assertEqual(refused["error"]["type"], "AUTH")

    def test_a_handler_may_answer_with_what_json_does_not_have(self):
        handler = """
import datetime, decimal, math, sys

def execute(args, context):
    print("to standard output")
    if args["text"] == "exit":
        sys.exit(3)
    return {"data": {"nan": math.nan, "at": datetime.date(2026, 1, 2), "price": decimal.Decimal("10.10"),
                     "half": "\\ud83d", "set": {1}, "bytes": b"abc"}, "ok": True}
"""
        files = {"handler.json": json.dumps({"kind": "process", "command": [sys.executable, "windlass.py"]}), "handler.py": handler}
        directory = self.tool("odd", "text", files)
        shutil.copy(ROOT / "crates/app/src/adapters/windlass.py", directory)
        (self.base / "windlass.toml").write_text("[handlers]\nprocesses = true\n")
        found = self.call("odd", {"text": "x"})
        data = {"nan": None, "at": "2026-01-02", "price": 10.1, "half": "\ufffd", "set": [1], "bytes": "abc"}
        self.assertEqual(found["data"], data)
        self.assertIn("1 values that JSON cannot hold were left out, the first at data/nan", found["meta"]["cut"])
        self.assertEqual(self.call("odd", {"text": "exit"})["error"]["type"], "INTERNAL")

    def test_a_process_runs_a_handler_that_uses_a_package_from_pypi(self):
        process = block("json", '"process"').replace('["node", "windlass.mjs"]', json.dumps([sys.executable, "windlass.py"]))
        directory = self.tool(
            "page-name", "title", {"handler.json": process, "handler.py": block("python", "slugify")}
        )
        shutil.copy(ROOT / "crates/app/src/adapters/windlass.py", directory)
        (self.base / "windlass.toml").write_text(block("toml", "processes = true"))
        named = self.call("page_name", {"title": "Où est le Fram?"})
        self.assertEqual(named["data"], {"name": "ou-est-le-fram", "mode": "text"})
        long = self.call("page_name", {"title": "x" * 101})
        self.assertEqual((long["error"]["type"], long["error"]["message"]), ("VALIDATION", "the title is too long"))
