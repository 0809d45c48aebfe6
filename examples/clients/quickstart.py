# Creates an IP policy, adds a rule twice, lists all policies, and deletes the policy. Python 3.9 or newer, without packages.
import json, os, uuid
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener


class NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_):  # urllib would send the API key along, even to another host
        return None


opener = build_opener(NoRedirect)


def call(method, path, body=None):
    headers = {"Authorization": f"Bearer {os.environ['GATEHOUSE_API_KEY']}", "Service-Version": "2"}
    if body is not None:
        headers["Content-Type"] = "application/json"
    if method == "POST":
        headers["Idempotency-Key"] = str(uuid.uuid4())  # send the same one again if the response is lost
    data = None if body is None else json.dumps(body).encode()
    request = Request(os.environ["GATEHOUSE_URL"] + path, data, headers, method=method)
    with opener.open(request, timeout=60) as response:
        return json.loads(response.read() or "null")


def rows(path, field):
    query = ""
    while True:
        page = call("GET", f"{path}?{query}")
        yield from page[field]
        if page["next_page_uri"] is None:
            return
        query = urlsplit(page["next_page_uri"]).query


policy = call("POST", "/ip_policies", {"description": "staging"})
rule = {"ip_policy_id": policy["id"], "action": "allow", "cidr": "203.0.113.0/24"}
call("POST", "/ip_policy_rules", rule)
try:
    call("POST", "/ip_policy_rules", rule)
except HTTPError as error:
    print(error.code, json.load(error)["error_code"])  # 409 ERR_CIDR_TAKEN
for each in rows("/ip_policies", "ip_policies"):
    print(each["id"], each.get("description"))
call("DELETE", f"/ip_policies/{policy['id']}")
