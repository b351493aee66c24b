"""The official Python client of MCP takes tasks of `windlass serve` at /mcp and of `windlass mcp serve`: by its interface for extensions, to
which the extension for tasks is given here, because the client brings none. Owns what that client must see. Needs WINDLASS_BINARY."""

import asyncio
import json
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any, Literal

from mcp import Client, MCPError, StdioServerParameters, types
from mcp.client.extension import ClientExtension, ResultClaim

HANDLER = """export async function execute({ args, context }) {
    context.progress("half way", 0.5);
    if (args.text === "bad") throw new Error("it is bad");
    return { ok: true, data: { said: args.text } };
}
"""


class TaskHandle(types.Result):
    result_type: Literal["task"] = "task"
    task_id: str
    status: str
    created_at: str
    last_updated_at: str
    ttl_ms: int | None
    poll_interval_ms: int | None = None


class ShownTask(TaskHandle):
    result_type: Literal["complete"] = "complete"
    result: types.CallToolResult | None = None
    error: dict[str, Any] | None = None


class TaskParams(types.RequestParams):
    task_id: str


class TaskRequest(types.Request[TaskParams, str]):
    name_param = "taskId"


class Tasks(ClientExtension):
    """Looks at a task until it has ended."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self):
        self.handles = []

    def claims(self):
        return [ResultClaim(result_type="task", model=TaskHandle, resolve=self.resolve)]

    async def resolve(self, handle, context):
        self.handles.append(handle)
        while True:
            task = await ask(context.session, "tasks/get", handle.task_id, ShownTask)
            if task.status != "working":
                assert task.status == "completed", task
                return task.result
            await asyncio.sleep(0.05)


def ask(session, method, task_id, result):
    request = TaskRequest(method=method, params=TaskParams(task_id=task_id))
    return session.send_request(request, result)


class McpTasks(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        folder = Path(self.folder.name)
        directory = folder / "tools" / "work"
        directory.mkdir(parents=True)
        schema = {
            "toolId": "work",
            "version": "1.0.0",
            "description": "Works.",
            "category": "utility",
            "sideEffects": "read_only",
            "idempotent": True,
            "requiresConfirmation": False,
            "behavior": "background",
            "allowedModes": ["text"],
            "latencyBudgetMs": 1000,
            "parameters": {"type": "object", "additionalProperties": False, "properties": {"text": {"type": "string"}}},
        }
        (directory / "schema.json").write_text(json.dumps(schema))
        (directory / "guide.md").write_text("# Work\n\nWorks.\n")
        (directory / "handler.js").write_text(HANDLER)
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

    def program(self):
        """In a data folder of its own, because the server has the other one."""
        arguments = ["mcp", "serve", "--data", os.path.join(self.folder.name, "other")]
        return StdioServerParameters(command=os.environ["WINDLASS_BINARY"], args=arguments, cwd=self.folder.name)

    def test_a_client_with_the_extension_takes_tasks_and_one_without_waits(self):
        for way in [self.url, self.program()]:
            with self.subTest(way=str(way)):
                asyncio.run(self.use(way))

    async def use(self, way):
        tasks = Tasks()
        async with Client(way, extensions=[tasks]) as client:
            done = await client.call_tool("work", {"text": "hi"})
            self.assertEqual(done.structured_content, {"said": "hi"})
            failed = await client.call_tool("work", {"text": "bad"})
            self.assertTrue(failed.is_error)
            self.assertEqual(len(tasks.handles), 2)
            handle = tasks.handles[0]
            # A task that has ended cannot be stopped, and the wish is taken.
            await ask(client.session, "tasks/cancel", handle.task_id, types.EmptyResult)
            with self.assertRaises(MCPError) as unknown:
                await ask(client.session, "tasks/get", "e-none", ShownTask)
            self.assertEqual(unknown.exception.code, -32602)
        async with Client(way) as client:
            done = await client.call_tool("work", {"text": "ho"})
            self.assertEqual(done.structured_content, {"said": "ho"})


if __name__ == "__main__":
    unittest.main()
