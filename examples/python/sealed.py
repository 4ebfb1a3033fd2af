#!/usr/bin/env python3
"""Opens and seals contents of jobs as `[seal]` of jobwright does: JWE (RFC 7516) with A256KW and A256GCM.

    sealed.py open KIND PART < sealed > plain
    sealed.py seal KIND PART [CONTENT_TYPE] < plain > sealed

KIND is the job's kind, PART is `payload` or `result`. A worker of an external queue gets a sealed payload with the content type
`application/jose`; a producer sends one with that content type. Needs jwcrypto (Debian: python3-jwcrypto).

Environment: SEAL_KEY, the key as ID=BASE64.
Exit codes: 0, 1 could not be opened or sealed (the reason is on standard error), 2 wrong usage.
"""

import argparse
import base64
import os
import sys

from jwcrypto import jwe, jwk
from jwcrypto.common import JWException, json_encode

ALGORITHMS = ["A256KW", "A256GCM"]


class Refused(Exception):
    """It can't be trusted, or not be read."""


def keys(text: str) -> dict:
    """The keys by their ids. With more than one, separate them by commas: the first seals."""
    found = {}
    for entry in text.split(","):
        key_id, _, key = entry.partition("=")
        raw = base64.b64decode(key)
        if not key_id or len(raw) != 32:
            raise Refused("SEAL_KEY is not ID=BASE64 with 32 bytes")
        found[key_id] = jwk.JWK(kty="oct", k=base64.urlsafe_b64encode(raw).rstrip(b"=").decode())
    return found


def open_sealed(sealed: str, kind: str, part: str, known: dict) -> tuple:
    """The content and its type. What was sealed for another kind or part is refused: somebody moved it."""
    token = jwe.JWE(algs=ALGORITHMS)
    token.deserialize(sealed)
    header = token.jose_header
    key = known.get(header.get("kid"))
    if key is None:
        raise Refused(f"it is sealed with the key {header.get('kid')!r}, which is not here")
    token.decrypt(key)
    if header.get("kind") != kind or header.get("typ") != f"jobwright-{part}":
        raise Refused("it was sealed for another kind, or for another part of a job")
    return token.payload, header.get("cty")


def seal(content: bytes, content_type: str, kind: str, part: str, known: dict) -> str:
    key_id, key = next(iter(known.items()))
    header = {
        "kid": key_id,
        "alg": ALGORITHMS[0],
        "enc": ALGORITHMS[1],
        "typ": f"jobwright-{part}",
        "cty": content_type,
        "kind": kind,
    }
    token = jwe.JWE(content, protected=json_encode(header), algs=ALGORITHMS)
    token.add_recipient(key)
    return token.serialize(compact=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Opens and seals contents of jobs.")
    parser.add_argument("what", choices=["open", "seal"])
    parser.add_argument("kind")
    parser.add_argument("part", choices=["payload", "result"])
    parser.add_argument("content_type", nargs="?", default="application/json")
    args = parser.parse_args()
    try:
        known = keys(os.environ.get("SEAL_KEY", ""))
        content = sys.stdin.buffer.read()
        if args.what == "open":
            plain, _ = open_sealed(content.decode().strip(), args.kind, args.part, known)
            sys.stdout.buffer.write(plain)
        else:
            sys.stdout.write(seal(content, args.content_type, args.kind, args.part, known))
    except (JWException, ValueError, Refused) as error:
        print(f"{args.what} failed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
