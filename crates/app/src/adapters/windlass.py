"""Runs handler.py beside it as a worker of Windlass: JSON-RPC 2.0, one message a line, on standard input and output.

    handler.json   { "kind": "process", "command": ["python3", "windlass.py"] }
    handler.py     def execute(args, context): return {"ok": True, "data": ...}

`execute` may be `async def`; then what the context offers is awaited. A handler may `from windlass import ToolError`. What it
prints goes to the server's log. Dates, decimals, sets, bytes and numbers of NumPy become what JSON has for them; what it has
nothing for becomes null, and the server is told so.
"""

import asyncio
import base64
import collections.abc
import dataclasses
import datetime
import decimal
import enum
import importlib.util
import inspect
import itertools
import json
import math
import os
import sys
import threading
import traceback

OPTIONS = {
    "retryable": "retryable",
    "partial_side_effects": "partialSideEffects",
    "suggestion": "suggestion",
    "details": "details",
    "retry_after_ms": "retryAfterMs",
    "retry_after": "retryAfter",
    "max_retries": "maxRetries",
    "idempotency_required": "idempotencyRequired",
}


class ToolError(Exception):
    """What a handler raises to say how a call failed: `ToolError("NOT_FOUND", "there is no such order")`."""

    def __init__(self, type, message, **options):
        super().__init__(message)
        self.type = type
        self.message = message
        self.options = {OPTIONS[name]: value for name, value in options.items()}


def refusal(error):
    """What the server refuses within a call. An error of the contract fails the call as it is, where the handler does not catch it."""
    data = error.get("data") or {}
    if not data.get("type"):
        return RequestError(error)
    refused = ToolError(data["type"], error["message"])
    refused.options = {name: data[name] for name in ("retryable", "suggestion", "details") if data.get(name) is not None}
    refused.code = data.get("code")
    return refused


class RequestError(Exception):
    """What the server refuses within a call; `code` says why."""

    def __init__(self, error):
        super().__init__(error["message"])
        self.code = (error.get("data") or {}).get("code", error["code"])


class Plain:
    """Makes values of Python such that JSON can hold them, and counts those that had to be left out."""

    DEPTH_MAX = 100

    def __init__(self):
        self.left_out = 0
        self.first = ""
        self.around = []
        self.path = []

    def of(self, value):
        if value is None or type(value) in (bool, int, str):
            return value
        if len(self.around) > self.DEPTH_MAX or id(value) in self.around:
            return self.without()
        self.around.append(id(value))
        try:
            return self.converted(value)
        except Exception:
            return self.without()
        finally:
            self.around.pop()

    def without(self):
        self.left_out += 1
        self.first = self.first or "/".join(self.path)
        return None

    def at(self, name, value):
        self.path.append(str(name)[:60])
        try:
            return self.of(value)
        finally:
            self.path.pop()

    def converted(self, value):
        if isinstance(value, enum.Enum):
            return self.of(value.value)
        if isinstance(value, (bool, int, str)):
            # A subclass may have a text of its own, as members of enums have.
            return bool(value) if isinstance(value, bool) else int(value) if isinstance(value, int) else str.__str__(value)
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else self.without()
        if isinstance(value, decimal.Decimal):
            return self.number(value)
        if isinstance(value, (datetime.date, datetime.time)):
            return value.isoformat()
        if isinstance(value, (bytes, bytearray, memoryview)):
            value = bytes(value)
            try:
                return value.decode()
            except UnicodeDecodeError:
                return base64.b64encode(value).decode()
        if isinstance(value, collections.abc.Mapping):
            return {self.key(key): self.at(key, item) for key, item in value.items()}
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = (field.name for field in dataclasses.fields(value))
            return {name: self.at(name, getattr(value, name)) for name in names}
        # Numbers and arrays of NumPy, and models of Pydantic.
        for method in ("tolist", "model_dump"):
            if callable(getattr(type(value), method, None)):
                return self.of(getattr(value, method)())
        if isinstance(value, (collections.abc.Sequence, collections.abc.Set)):
            return [self.at(place, item) for place, item in enumerate(value)]
        return str(value)

    def number(self, value):
        if not value.is_finite():
            return self.without()
        if value == value.to_integral_value() and value.adjusted() < 40:
            return int(value)
        # A float where that is the same number, else its digits.
        return float(value) if decimal.Decimal(repr(float(value))) == value else str(value)

    def key(self, key):
        if isinstance(key, str):
            return str.__str__(key)
        key = self.of(key)
        return key if isinstance(key, str) else json.dumps(key)


def written(message):
    """The line of a message. Most hold nothing that JSON cannot."""
    try:
        return json.dumps(message, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        plain = Plain()
        message = plain.of(message)
        if plain.left_out and isinstance(result := message.get("result"), dict) and result.get("ok") is True:
            result["meta"] = {**(result.get("meta") or {}), "cut": f"{plain.left_out} values that JSON cannot hold were left out, the first at {plain.first.removeprefix('result/')}"}
        return json.dumps(message, allow_nan=False)


class Signal:
    aborted = False


class Context(dict):
    """What the server says of a call, as keys; and what the call may do, as methods."""

    def __init__(self, server, call, given, is_async):
        super().__init__(given["context"])
        self._server, self._call, self._is_async = server, call, is_async
        self.args = given["args"]
        self.signal = Signal()

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def get_state(self):
        """What handlers keep for the conversation, as it was when the call began. The intent SET_STATE changes it."""
        return self.get("session", {}).get("state", {}).get("values", {})

    def _ask(self, method, **params):
        answer = self._server.ask(self._call, method, params)
        if self._is_async:
            return answer
        return asyncio.run_coroutine_threadsafe(answer, self._server.loop).result()

    def _say(self, method, **params):
        self._server.send({"method": method, "params": {**params, "call": self._call}})

    def send_message(self, message):
        return self._ask("messaging.send", message=message)

    def audit(self, event, data=None):
        self._say("audit.log", event=event, data=data)

    def emit(self, name, payload=None):
        self._say("events.emit", name=name, payload=payload)

    def output(self, piece):
        self._say("output", data=piece)

    def progress(self, message, fraction=None):
        self._say("progress", message=message, fraction=fraction)

    def kb_search(self, query, **options):
        return self._ask("kb.search", query=query, **options)

    def kb_get(self, id, **options):
        return self._ask("kb.get", id=id, **options)

    def secret(self, name):
        return self._ask("secret", name=name)

    def connection(self, name):
        return self._ask("connection", name=name)

    def add_block(self, until, farewell_message=""):
        return self._ask("blocks.add", until=until, farewellMessage=farewell_message)

    def call_tool(self, id, args):
        return self._ask("callTool", id=id, args=args)

    def fetch(self, url, method="GET", headers=None, body=None, redirect="follow"):
        """A request to a host of the allow-list, made by the server: a dict with status, headers and body."""
        params = {"url": url, "method": method, "headers": headers or {}, "redirect": redirect}
        if isinstance(body, bytes):
            params["bodyBase64"] = base64.b64encode(body).decode()
        elif body is not None:
            params["body"] = body
        return self._ask("http.fetch", **params)


def answer(result):
    """Says first whether the call has worked, whatever becomes of the rest."""
    if isinstance(result, collections.abc.Mapping) and "ok" in result:
        return {"ok": result["ok"], **result}
    return result


class Server:
    def __init__(self, execute):
        self.execute = execute
        self.is_async = inspect.iscoroutinefunction(execute)
        self.output = os.fdopen(os.dup(1), "w", encoding="utf-8")
        self.lock = threading.Lock()
        self.ids = itertools.count(1)
        self.asked = {}
        self.open = {}
        self.running = set()

    def send(self, message):
        line = written({"jsonrpc": "2.0", **message}) + "\n"
        with self.lock:
            self.output.write(line)
            self.output.flush()

    async def ask(self, call, method, params):
        id = f"w{next(self.ids)}"
        self.asked[id] = answer = self.loop.create_future()
        self.send({"id": id, "method": method, "params": {**params, "call": call}})
        return await answer

    async def run(self, id, given):
        context = self.open[id] = Context(self, id, given, self.is_async)
        try:
            if self.is_async:
                result = await self.execute(given["args"], context)
            else:
                result = await asyncio.to_thread(self.execute, given["args"], context)
            self.send({"id": id, "result": {"ok": True} if result is None else answer(result)})
        except ToolError as error:
            failure = {**error.options, "type": error.type, "message": error.message}
            self.send({"id": id, "result": {"ok": False, "error": failure}})
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            # Also one that would end the program, and with it the calls of others.
            traceback.print_exc()
            self.send({"id": id, "error": {"code": -32000, "message": str(error)}})
        finally:
            del self.open[id]

    def take(self, line):
        message = json.loads(line)
        method, id = message.get("method"), message.get("id")
        if method == "execute":
            task = self.loop.create_task(self.run(id, message["params"]))
            self.running.add(task)
            task.add_done_callback(self.running.discard)
        elif method == "$/cancel":
            if context := self.open.get(message["params"]["id"]):
                context.signal.aborted = True
        elif (answer := self.asked.pop(id, None)) and not answer.done():
            if error := message.get("error"):
                answer.set_exception(refusal(error))
            else:
                answer.set_result(message.get("result"))

    def read(self):
        for line in sys.stdin.buffer:
            self.loop.call_soon_threadsafe(self.take, line)
        os._exit(0)

    async def serve(self):
        self.loop = asyncio.get_running_loop()
        threading.Thread(target=self.read, daemon=True).start()
        await asyncio.Event().wait()


def main():
    # Only messages belong on standard output.
    path = sys.argv[1] if len(sys.argv) > 1 else "handler.py"
    # A handler that imports this module gets this one, and not a second.
    sys.modules["windlass"] = sys.modules["__main__"]
    spec = importlib.util.spec_from_file_location("handler", path)
    handler = importlib.util.module_from_spec(spec)
    server_output = os.dup(1)
    os.dup2(2, 1)
    spec.loader.exec_module(handler)
    os.dup2(server_output, 1)
    server = Server(handler.execute)
    os.dup2(2, 1)
    asyncio.run(server.serve())


if __name__ == "__main__":
    main()
