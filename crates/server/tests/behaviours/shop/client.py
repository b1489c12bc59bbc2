"""Calls each operation of a document as the document says, and prints what the service does otherwise."""

import json
import sys
import urllib.error
import urllib.parse
import urllib.request

from jsonschema import Draft202012Validator

BASE = sys.argv[1]


def send(method, path, headers, body=None):
    request = urllib.request.Request(BASE + path, data=body, headers=headers, method=method)
    opener = urllib.request.build_opener(type("Stay", (urllib.request.HTTPRedirectHandler,), {
        "redirect_request": lambda *arguments: None,
    }))
    try:
        response = opener.open(request)
    except urllib.error.HTTPError as error:
        response = error
    kind = (response.headers.get("content-type") or "").split(";")[0]
    return response.status, kind, response.read()


DOCUMENT = json.loads(send("GET", "/openapi.json", {})[2])


def resolved(schema):
    while "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    return schema


def sample(schema):
    schema = resolved(schema)
    for keyword in ("oneOf", "anyOf"):
        if keyword in schema:
            return sample(schema[keyword][0])
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        fields = schema.get("properties", {})
        return {name: sample(fields[name]) for name in schema.get("required", []) if name in fields}
    if kind == "array":
        return [sample(item) for item in schema.get("prefixItems", [])]
    return {"integer": 1, "number": 1.5, "boolean": True, "null": None}.get(kind, "1")


def calls():
    for path, item in DOCUMENT["paths"].items():
        others = item.get("x-other-methods", {})
        for method, operation in [*item.items(), *others.items()]:
            if not method.startswith("x-") and method != "*" and "x-guards" not in operation:
                yield path, method.upper(), operation


def arguments(path, operation, values):
    headers, query = {"authorization": "Bearer secret"}, {}
    for parameter in operation.get("parameters", []):
        name, value = parameter["name"], values(parameter)
        if parameter["in"] == "path":
            path = path.replace("{" + name + "}", urllib.parse.quote(str(value), safe=""))
        elif parameter["in"] == "query" and parameter.get("required"):
            query[name] = value
        elif parameter["in"] == "header" and parameter.get("required"):
            headers[name] = str(value)
    return path + ("?" + urllib.parse.urlencode(query) if query else ""), headers


def check(path, method, operation, answer):
    status, kind, body = answer
    responses = operation["responses"]
    response = responses.get(str(status)) or responses.get(f"{status // 100}XX") or responses.get("default")
    where = f"{method} {path}: {status} {kind} {body[:200]}"
    if response is None:
        print(f"{where} is not among {list(responses)}")
        return
    content = response.get("content", {})
    if body and content and kind not in content:
        print(f"{where} has another type than {list(content)}")
    elif "json" in kind and kind in content:
        # References lead from the root of the document.
        schema = {**content[kind].get("schema", {}), "components": DOCUMENT["components"]}
        validator = Draft202012Validator(schema)
        for error in validator.iter_errors(json.loads(body)):
            print(f"{where}: {error.message}")


count = 0
for path, method, operation in calls():
    target, headers = arguments(path, operation, lambda parameter: sample(parameter["schema"]))
    body = None
    for kind, media in operation.get("requestBody", {}).get("content", {}).items():
        headers["content-type"] = kind.replace("*", "x")
        value = sample(media.get("schema", {}))
        forms = {"application/x-www-form-urlencoded": lambda: urllib.parse.urlencode(value)}
        text = forms[kind]() if kind in forms else json.dumps(value) if "json" in kind else ""
        body = text.encode()
        answer = send(method, target, headers, body)
        if answer[0] >= 400 and answer[0] not in (404, 409):
            print(f"{method} {path} refuses what it takes: {answer}")
        check(path, method, operation, answer)
        check(path, method, operation, send(method, target, headers, b"{\"a\""))
        check(path, method, operation, send(method, target, {**headers, "content-type": "x/y"}, body))
    check(path, method, operation, send(method, target, headers, body))
    check(path, method, operation, send(method, target, {**headers, "accept": "x/y", "authorization": ""}, body))
    wrong, headers = arguments(path, operation, lambda parameter: "%FF")
    check(path, method, operation, send(method, wrong, headers, body))
    count += 1
print("operations:", count, file=sys.stderr)
