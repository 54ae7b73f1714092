"""The least that a client in Python can do: wait for bytes, read them, send again at the end; nothing is understood.

URL SLOTS REQUESTS -> one JSON object with the CPU it cost. What a token costs here is the price of waking up for it: no
client that sees every token when it comes can be cheaper.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from urllib.parse import urlsplit

url, slots, requests = urlsplit(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
body = json.dumps({"model": "truth", "messages": [{"role": "user", "content": "hello"}], "stream": True}).encode()
head = (f"POST {url.path}/chat/completions HTTP/1.1", "Host: x", "X-Request-Id: floor", f"Content-Length: {len(body)}")
request = "\r\n".join(head).encode() + b"\r\n\r\n" + body

start, cpu = time.perf_counter(), time.process_time()
poll, lines = select.epoll(), dict[int, socket.socket]()
left = requests - slots
for _ in range(slots):
    line = socket.create_connection((url.hostname, url.port))
    line.setblocking(False)
    poll.register(line.fileno(), select.EPOLLIN)
    lines[line.fileno()] = line
    line.send(request)
while lines:
    for fd, _ in poll.poll():
        data = lines[fd].recv(16384)
        if data and not data.endswith(b"\r\n0\r\n\r\n"):
            continue
        if data and left > 0:
            left -= 1
            lines[fd].send(request)
        else:
            poll.unregister(fd)
            lines.pop(fd).close()
print(json.dumps({"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}))
