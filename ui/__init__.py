"""The room: several people, one live conversation with the agent listening."""

import os

# read by langgraph when it is first imported: a checkpoint may only hold the types we name
os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")
