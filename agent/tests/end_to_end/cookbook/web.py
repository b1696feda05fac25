"""A web service: a thread for each connection, and a client that keeps it busy."""

import http.client
import http.server
import json
import os
import threading
import time

JOURNAL = threading.Lock()
PRICES = {"item-%d" % number: number * 17 % 101 for number in range(2000)}


class Shop(http.server.BaseHTTPRequestHandler):
    """Answers with a list of prices."""

    protocol_version = "HTTP/1.1"
    # An answer is one write.
    wbufsize = -1

    def do_GET(self):
        prices = cheapest(query_database())
        write_journal()
        body = json.dumps(prices).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


def query_database():
    """Stands for a query over the network."""
    time.sleep(0.08)
    return list(PRICES.items())


def cheapest(items):
    """Sorts all, where it need not."""
    result = []
    for _ in range(60):
        result = sorted(items, key=lambda item: item[1])
    return result[:100]


def write_journal():
    """Holds a lock while it waits for the disk."""
    with JOURNAL:
        time.sleep(0.005)


def be_client(port):
    """Four users, in a process of their own."""

    def browse():
        connection = http.client.HTTPConnection("127.0.0.1", port)
        try:
            while True:
                connection.request("GET", "/")
                connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            # The service has ended.
            os._exit(0)

    for _ in range(4):
        threading.Thread(target=browse, daemon=True).start()
    # It ends with the service.
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(0.1)


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Shop)
    if os.fork() == 0:
        server.socket.close()
        be_client(server.server_address[1])
        os._exit(0)
    print("ready", flush=True)
    server.serve_forever()


main()
