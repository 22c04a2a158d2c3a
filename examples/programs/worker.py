#!/usr/bin/env python3
"""A worker in Python. Run it with: dibs work orders -- python3 worker.py

The payload is on standard input: {"order": 7, "amount": 12.5}
"""

import http.client
import json
import os
import socket
import sys


def tell(path, body):
    """Calls the endpoint of this task, to report progress and the like."""
    connection = http.client.HTTPConnection("task")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(os.environ["DIBS_SOCKET"])
    connection.request("POST", path, json.dumps(body))
    answer = connection.getresponse()
    if answer.status == 409:
        sys.exit(1)  # The claim is lost: another worker has the task.


order = json.load(sys.stdin)
if "order" not in order:
    print(f"the payload has no order: {order}", file=sys.stderr)
    sys.exit(65)  # Retrying is useless: a dead letter.

tell("/progress", {"value": 0.5, "note": "packing"})
# This task exists only if the order succeeds.
tell("/add", {"queue": "invoices", "data": {"order": order["order"]}})
print(json.dumps({"order": order["order"], "shipped": True, "by": "python"}))
