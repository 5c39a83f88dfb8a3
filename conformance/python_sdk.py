"""Plays the conformance cases against the official Python SDK, with itself as the CLI.

usage: python_sdk.py [CASE…]        (with the SDK installed; scripts/conformance does that)
"""

import asyncio
import json
import os
import pathlib
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
CASE, NOTES = "YB_CONFORMANCE_CASE", "YB_CONFORMANCE_NOTES"


# The CLI -----------------------------------------------------------------------------------------------------------

def fits(value, pattern):
    if isinstance(pattern, dict):
        return isinstance(value, dict) and all(k in value and fits(value[k], v) for k, v in pattern.items())
    if isinstance(pattern, list):
        return isinstance(value, list) and len(value) == len(pattern) and all(map(fits, value, pattern))
    return value == pattern


def filled(value, kept):
    if isinstance(value, str) and value.startswith("{{") and value.endswith("}}"):
        name, pointer = value[2:-2].split(".", 1)
        found = kept[name]
        for key in pointer.strip("/").split("/"):
            found = found[int(key)] if isinstance(found, list) else found[key]
        return found
    if isinstance(value, dict):
        return {k: filled(v, kept) for k, v in value.items()}
    if isinstance(value, list):
        return [filled(v, kept) for v in value]
    return value


def play():
    case = json.loads(pathlib.Path(os.environ[CASE]).read_text())
    notes = {"argv": sys.argv[1:], "env": dict(os.environ), "lines": [], "ended_at_step": None}
    played, kept = 0, {}

    def save():
        pathlib.Path(os.environ[NOTES]).write_text(json.dumps(notes))

    def read():
        line = sys.stdin.buffer.readline()
        if not line:
            if notes["ended_at_step"] is None:
                notes["ended_at_step"] = played
            save()
            return None
        notes["lines"].append(json.loads(line))
        save()
        return notes["lines"][-1]

    def write(data):
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    save()
    for step in case["stdout_script"]:
        if "await" in step:
            pattern = case["stdin_expect"][step["await"]]
            while (line := read()) is not None and not fits(line, pattern):
                pass
            if line is None:
                sys.exit(0)
            kept[step["await"]] = line
        elif "line" in step:
            write(json.dumps(filled(step["line"], kept)).encode() + b"\n")
        elif "split" in step:
            for byte in json.dumps(step["split"], ensure_ascii=False).encode() + b"\n":
                write(bytes([byte]))
        elif "unterminated" in step:
            write(json.dumps(step["unterminated"]).encode())
        elif "bytes" in step:
            write(step["bytes"].encode())
        elif "pause_ms" in step:
            time.sleep(step["pause_ms"] / 1000)
        elif "await_eof" in step:
            while read() is not None:
                pass
        elif "exit" in step:
            sys.stderr.write(step.get("stderr", ""))
            # What was written by then still counts.
            reader = threading.Thread(target=lambda: [None for _ in iter(read, None)], daemon=True)
            reader.start()
            reader.join(0.2)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(step["exit"])
        played += 1
    while read() is not None:
        pass


# The host ----------------------------------------------------------------------------------------------------------

def options_of(asked, sdk):
    options = {}
    for key in ["model", "max_turns", "max_budget_usd", "permission_mode", "resume", "tools", "allowed_tools",
                "disallowed_tools", "setting_sources", "system_prompt", "env", "extra_args", "resume_session_at",
                "resume_drops_turn", "client_app", "skills"]:
        if key in asked:
            options[key] = asked[key]
    if asked.get("fork"):
        options["fork_session"] = True
    if "json_schema" in asked:
        options["output_format"] = {"type": "json_schema", "schema": asked["json_schema"]}
    if "agents" in asked:
        options["agents"] = {name: sdk.AgentDefinition(**agent) for name, agent in asked["agents"].items()}
    hooks = {}
    for hook in asked.get("hooks", []):
        async def callback(_input, _id, _context, hook=hook):
            await asyncio.sleep(hook.get("delay_ms", 0) / 1000)
            if "error" in hook:
                raise RuntimeError(hook["error"])
            return hook["answer"]
        matcher = sdk.HookMatcher(matcher=hook.get("matcher"), hooks=[callback], timeout=hook.get("timeout"))
        hooks.setdefault(hook["event"], []).append(matcher)
    if hooks:
        options["hooks"] = hooks
    if "can_use_tool" in asked:
        wanted = asked["can_use_tool"]

        async def decide(_name, _input, _context):
            if "error" in wanted:
                raise RuntimeError(wanted["error"])
            if wanted["behavior"] == "allow":
                return sdk.PermissionResultAllow(updated_input=wanted.get("updatedInput"))
            return sdk.PermissionResultDeny(message=wanted["message"], interrupt=wanted.get("interrupt", False))
        options["can_use_tool"] = decide
    servers = {}
    for one in asked.get("tools_of_host", []):
        async def run(_arguments, one=one):
            await asyncio.sleep(one.get("delay_ms", 0) / 1000)
            if "error" in one:
                raise RuntimeError(one["error"])
            return {"content": [{"type": "text", "text": one["answer"]}]}
        servers.setdefault(one["server"], []).append(sdk.tool(one["name"], one["name"], {})(run))
    if servers:
        options["mcp_servers"] = {n: sdk.create_sdk_mcp_server(n, tools=tools) for n, tools in servers.items()}
    return options


def shown(message, sdk):
    if isinstance(message, sdk.ResultMessage):
        return {"type": "result", "subtype": message.subtype, "result": message.result}
    if isinstance(message, sdk.AssistantMessage):
        texts = [block.text for block in message.content if isinstance(block, sdk.TextBlock)]
        return {"type": "assistant", "text": "".join(texts)}
    if isinstance(message, sdk.SystemMessage):
        return {"type": "system", "subtype": message.subtype}
    return {"type": type(message).__name__}


async def host(case, cli, sdk, store):
    messages, error = [], None

    async def prompts():
        for prompt in case.get("prompts") or [case["prompt"]]:
            yield {"type": "user", "message": {"role": "user", "content": prompt}, "parent_tool_use_id": None, "session_id": ""}

    try:
        options = sdk.ClaudeAgentOptions(cli_path=str(cli), **options_of(case["options"], sdk))
        if case["options"].get("session_store"):
            options.session_store = store
            if case["options"]["session_store"] == "eager":
                options.session_store_flush = "eager"
        # The SDK wants a stream of prompts where somebody decides about permissions.
        prompt = prompts() if "can_use_tool" in case["options"] or "prompts" in case else case["prompt"]
        async with asyncio.timeout(20):
            async for message in sdk.query(prompt=prompt, options=options):
                messages.append(shown(message, sdk))
    except Exception as raised:  # what it is, is part of the verdict
        error = raised
    return messages, error


def kind_of(error, sdk):
    if error is None:
        return None
    kinds = [("ResultError", "result"), ("ProcessError", "exited"), ("CLIJSONDecodeError", "protocol")]
    names = [base.__name__ for base in type(error).__mro__]
    return next((kind for name, kind in kinds if name in names), type(error).__name__)


def flags_of(argv):
    flags = {}
    for at, word in enumerate(argv):
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            following = argv[at + 1] if at + 1 < len(argv) else "--"
            flags[name] = value if equals else True if following.startswith("--") else following
    return flags


def recording_store(sdk):
    """A store that records the types of the entries of every call, by key."""

    class Store(sdk.InMemorySessionStore):
        async def append(self, key, entries):
            name = "/".join(key[part] for part in ("project_key", "session_id", "subpath") if key.get(part))
            self.appends.setdefault(name, []).append([entry["type"] for entry in entries])
            await super().append(key, entries)

    store = Store()
    store.appends = {}
    return store


def verdict(expect, notes, messages, error, sdk, appends):
    """What is wrong, or nothing."""
    argv, env, lines = notes["argv"], notes["env"], notes["lines"]
    for flag, value in expect.get("argv", {}).items():
        if flags_of(argv).get(flag) != value:
            yield f"argv: {flag} is {flags_of(argv).get(flag)!r}"
    for word in expect.get("argv_has", []):
        if word not in argv:
            yield f"argv has no {word}"
    for word in expect.get("argv_lacks", []):
        if word in argv:
            yield f"argv has {word}"
    for text in expect.get("argv_without", []):
        if any(text in word for word in argv):
            yield f"{text} is in argv"
    for name, value in expect.get("env", {}).items():
        if env.get(name) != value:
            yield f"env: {name} is {env.get(name)!r}"
    for name in expect.get("env_set", []):
        if not env.get(name):
            yield f"env: {name} is not set"
    for name, value in expect.get("env_not", {}).items():
        if env.get(name) == value:
            yield f"env: {name} is {value}"
    rest = iter(lines)
    for pattern in expect.get("writes", []):
        if not any(fits(line, pattern) for line in rest):
            yield f"never wrote {pattern}"
    if "writes_lack" in expect and any(None in agent.values() for line in lines
                                      for agent in line.get("request", {}).get("agents", {}).values()):
        yield "an agent has a null"
    for field in expect.get("writes_without", []):
        if field in lines[0]["request"]:
            yield f"initialize has {field}"
    stored = {key: [kind for call in calls for kind in call] for key, calls in appends.items()}
    if "stored" in expect and stored != expect["stored"]:
        yield f"stored: {stored}"
    if "appends" in expect and appends != expect["appends"]:
        yield f"appends: {appends}"
    answers = {}
    for line in lines:
        if line.get("type") == "control_response":
            answers.setdefault(line["response"]["request_id"], []).append(line["response"])
    for request, pattern in expect.get("answers", {}).items():
        found = answers.get(request, [])
        if len(found) != 1 or not answer_fits(found[0], pattern):
            yield f"answers to {request}: {found}"
    for request in expect.get("no_answer", []):
        if request in answers:
            yield f"answered {request}"
    if "messages" in expect and not (len(messages) == len(expect["messages"]) and all(map(fits, messages, expect["messages"]))):
        yield f"messages: {messages}"
    for pattern in expect.get("messages_include", []):
        if not any(fits(message, pattern) for message in messages):
            yield f"no message {pattern}: {messages}"
    if kind_of(error, sdk) != expect.get("error"):
        yield f"error: {kind_of(error, sdk)}: {error!r}"
    if expect.get("error_text", "") not in str(error):
        yield f"error without words: {error}"
    if (notes["ended_at_step"] or 0) < expect.get("eof_after", 0):
        yield f"the input ended at step {notes['ended_at_step']}"


def answer_fits(answer, pattern):
    if "error" in pattern and pattern["error"] not in answer.get("error", ""):
        return False
    return fits(answer, {key: value for key, value in pattern.items() if key != "error"})


def main():
    import claude_agent_sdk as sdk

    wanted, failed, counts = sys.argv[1:], 0, {}
    for path in sorted(HERE.glob("cases/*.json")):
        for case in json.loads(path.read_text()):
            if wanted and case["name"] not in wanted:
                continue
            how = case["python"].split(":")[0]
            counts[how] = counts.get(how, 0) + 1
            if how == "not portable":
                continue
            with tempfile.TemporaryDirectory() as folder:
                folder = pathlib.Path(folder)
                (folder / "case.json").write_text(json.dumps(case))
                cli = folder / "claude"
                cli.write_text(f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(HERE)!r})\nimport python_sdk\npython_sdk.play()\n")
                cli.chmod(0o755)
                os.environ[CASE], os.environ[NOTES] = str(folder / "case.json"), str(folder / "notes.json")
                os.environ.update(case["options"].get("host_env", {}))
                store = recording_store(sdk)
                messages, error = asyncio.run(host(case, cli, sdk, store))
                for name in case["options"].get("host_env", {}):
                    del os.environ[name]
                notes = json.loads((folder / "notes.json").read_text()) if (folder / "notes.json").exists() else {
                    "argv": [], "env": {}, "lines": [], "ended_at_step": None}
            problems = list(verdict(case["expect"], notes, messages, error, sdk, store.appends))
            if how == "same" and problems:
                failed += 1
                print(f"{path.stem}/{case['name']}: the Python SDK does otherwise: {'; '.join(problems)}")
            if how == "differs" and not problems:
                failed += 1
                print(f"{path.stem}/{case['name']}: the Python SDK passes it, so it does not differ")
            if how == "differs" and wanted:
                print(f"{path.stem}/{case['name']}: {problems}")
    print(f"{failed} surprises; " + ", ".join(f"{count} {how}" for how, count in sorted(counts.items())))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
