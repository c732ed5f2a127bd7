# python3 stream.py http://127.0.0.1:3000 <access token> <id of an agent> "Within how many days can goods be returned?"
import json
import sys

from acs_client import AuthenticatedClient
from acs_client.api.chat import stream_message
from acs_client.models import ChatDoneEvent, ChatErrorEvent, ChatTokenEvent, SendMessageBody

base_url, token, agent_id, message = sys.argv[1:]
client = AuthenticatedClient(base_url=base_url, token=token, raise_on_unexpected_status=True)
request = stream_message._get_kwargs(body=SendMessageBody(agent_id=agent_id, message=message))
types = {"token": ChatTokenEvent, "done": ChatDoneEvent, "error": ChatErrorEvent}

with client.get_httpx_client().stream(**request, timeout=None) as response:
    response.raise_for_status()
    for line in response.iter_lines():
        if not line.startswith("data: "):
            continue
        data = json.loads(line.removeprefix("data: "))
        event = types[data["type"]].from_dict(data)
        if isinstance(event, ChatTokenEvent):
            print(event.t, end="")
        elif isinstance(event, ChatErrorEvent):
            sys.exit(event.detail)
        else:
            print("\n" + ", ".join(citation.document_name for citation in event.citations))
