"""The official Python client of MCP uses the tools of `windlass serve` at /mcp and of `windlass mcp serve`. Owns what that client must see.
Needs WINDLASS_BINARY."""

import asyncio
import json
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from mcp import Client, StdioServerParameters, types

HANDLER = "export async function execute({ args }) { return { ok: true, data: { said: args.text } }; }\n"


def write_tool(folder, name, more):
    """A tool that says what it was given."""
    directory = folder / "tools" / name
    directory.mkdir(parents=True)
    schema = {
        "toolId": name,
        "version": "1.0.0",
        "description": "Says it.",
        "idempotent": True,
        "allowedModes": ["text"],
        "latencyBudgetMs": 1000,
        "parameters": {"type": "object", "additionalProperties": False, "properties": {"text": {"type": "string"}}},
        **more,
    }
    (directory / "schema.json").write_text(json.dumps(schema))
    (directory / "guide.md").write_text("# Say\n\nSays it.\n")
    (directory / "handler.js").write_text(HANDLER)


class McpServer(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        folder = Path(self.folder.name)
        write_tool(folder, "say", {"category": "utility", "sideEffects": "none", "requiresConfirmation": False})
        write_tool(folder, "keep", {"category": "action", "sideEffects": "writes", "requiresConfirmation": True})
        (folder / "windlass.toml").write_text("[mcp_server]\nenabled = true\n")
        command = [os.environ["WINDLASS_BINARY"], "serve", "--listen", "127.0.0.1:0"]
        command += ["--provider", "demo", "--text-provider", "demo"]
        self.server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.url = re.search(r"http://\S+", self.server.stdout.readline()).group(0) + "/mcp"

    def tearDown(self):
        self.server.terminate()
        self.server.wait()
        self.server.stdout.close()
        self.folder.cleanup()

    def program(self, name):
        """In a data folder of its own, because the server has the other one."""
        arguments = ["mcp", "serve", "--data", os.path.join(self.folder.name, name)]
        return StdioServerParameters(command=os.environ["WINDLASS_BINARY"], args=arguments, cwd=self.folder.name)

    def test_either_revision_on_either_way_lists_calls_and_asks_its_user(self):
        for mode in ["auto", "legacy"]:
            for way in [self.url, self.program(mode)]:
                with self.subTest(mode=mode, way=str(way)):
                    asyncio.run(self.use(way, mode))

    async def use(self, way, mode):
        asked = []

        async def answer(_, params):
            asked.append(params.message)
            return types.ElicitResult(action="accept", content={"approve": True})

        async with Client(way, mode=mode, elicitation_callback=answer) as client:
            tools = await client.list_tools()
            self.assertTrue({"keep", "say"} <= {tool.name for tool in tools.tools})
            said = await client.call_tool("say", {"text": "hi"})
            self.assertEqual((said.structured_content, asked), ({"said": "hi"}, []))
            for _ in range(2):
                kept = await client.call_tool("keep", {"text": mode})
                self.assertEqual(kept.structured_content, {"said": mode})
            self.assertEqual(len(asked), 1, "nobody is asked about what was done")
            self.assertTrue(kept.meta["dev.windlass/replayed"])


if __name__ == "__main__":
    unittest.main()
