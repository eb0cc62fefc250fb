"""An object store on loopback with the protocol of S3, in a separate process, because deltalake blocks Python.

Arguments: the bucket, then a folder to serve, or a status and an error code for every answer. It prints its port.
"""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

BUCKET, FOLDER, *CODE = sys.argv[1:] if __name__ == "__main__" else ("bucket", ".")
Answer = tuple[int, bytes]


def answer(path: str) -> Answer:
    """Return status and body for a path."""
    if CODE:
        return int(FOLDER), error(CODE[0])
    url = urlsplit(path)
    if "list-type" in url.query:
        return 200, list_files(parse_qs(url.query))
    file = Path(FOLDER, url.path.removeprefix(f"/{BUCKET}/"))
    return (200, file.read_bytes()) if file.is_file() else (404, error("NoSuchKey"))


def error(code: str) -> bytes:
    return f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>No.</Message></Error>'.encode()


def list_files(query: dict[str, list[str]]) -> bytes:
    prefix, after = query.get("prefix", [""])[0], query.get("start-after", [""])[0]
    files = {file.relative_to(FOLDER).as_posix(): file for file in Path(FOLDER).rglob("*") if file.is_file()}
    contents = "".join(
        f"<Contents><Key>{escape(key)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
        f"<ETag>x</ETag><Size>{file.stat().st_size}</Size></Contents>"
        for key, file in sorted(files.items())
        if key.startswith(prefix) and key > after
    )
    return f"<ListBucketResult><IsTruncated>false</IsTruncated>{contents}</ListBucketResult>".encode()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status, body = answer(self.path)
        requested_range = self.headers.get("Range", "") if status == 200 else ""
        first, _, last = requested_range.removeprefix("bytes=").partition("-")
        part = body[int(first) : int(last) + 1 if last else None] if first else body
        self.send_response(206 if first else status)
        if first:
            self.send_header("Content-Range", f"bytes {first}-{int(first) + len(part) - 1}/{len(body)}")
        self.send_header("Content-Length", str(len(part)))
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.send_header("ETag", '"x"')
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(part)

    do_HEAD = do_GET  # noqa: N815 - the name that the server requires

    def log_message(self, *_: object) -> None:
        """Log nothing."""


if __name__ == "__main__":
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        sys.stdout.write(f"{server.server_address[1]}\n")
        sys.stdout.flush()
        server.serve_forever()
