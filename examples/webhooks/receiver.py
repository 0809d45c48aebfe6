# Verifies events of Gatehouse and prints them. pip install standardwebhooks; WEBHOOK_SECRET=whsec_… python3 receiver.py
import os
from http.server import BaseHTTPRequestHandler, HTTPServer
from standardwebhooks.webhooks import Webhook

webhook = Webhook(os.environ["WEBHOOK_SECRET"])  # whsec_…

class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        try:
            event = webhook.verify(body, {name.lower(): value for name, value in self.headers.items()})
        except Exception:
            self.send_response(401)
        else:
            print(self.headers["webhook-id"], event["type"], event["data"]["resource_id"])
            self.send_response(204)
        self.end_headers()

HTTPServer(("", int(os.environ.get("PORT", "8080"))), Receiver).serve_forever()
