"""Propose a declaration for records, and read its types."""

import json
from typing import Any

from lakehouse.declaration.inference.proposal import Proposal, propose


def infer(*objects: Any) -> Proposal:
    return propose([json.dumps(content).encode() for content in objects])


def types(proposal: Proposal) -> dict[str, str]:
    return {column.name: column.type for column in proposal.columns}
