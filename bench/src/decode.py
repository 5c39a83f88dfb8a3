"""Times the official SDK's own way from lines to messages: JSON, then its parser. Prints seconds and messages."""

import json
import sys
import time

from claude_agent_sdk._internal.message_parser import parse_message

with open(sys.argv[1], "rb") as file:
    lines = file.read().splitlines()

began = time.perf_counter()
messages = 0
for line in lines:
    try:
        if parse_message(json.loads(line)) is not None:
            messages += 1
    except Exception:  # a frame that the SDK does not know
        pass
print(time.perf_counter() - began, messages)
