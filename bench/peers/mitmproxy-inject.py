"""An addon of mitmproxy that puts the credential in."""


def request(flow):
    flow.request.headers["authorization"] = "Bearer SECRET"
