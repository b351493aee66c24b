"""The code of TOOL, in a Python process of its own: packages of PyPI can be imported. windlass.py beside it speaks with the
server and has ToolError. What is printed goes to the server's log."""


def execute(args, context):
    return {
        "ok": True,
        "data": {"query": args["query"], "answer": f"TOOL heard: {args['query']}", "mode": context.mode},
    }
