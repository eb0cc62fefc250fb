"""The proof that a ledger accounts for every record: arithmetic on the history alone."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from lakehouse.ledger.commits import Entry
from lakehouse.ledger.differences import accepted, differences, unaccounted
from lakehouse.ledger.ledger import Ledger

_SHOWN = 5  # problems spelled out; the rest are counted
_FACTS = {
    "accounting_read": "read = rejected + duplicate + rows merged in every commit",
    "accounting_stale": "stale = rows merged - inserted - updated is at least 0",
    "ranges_contiguous": "every batch begins where the one before it ended",
    "totals": "the running totals equal the sums of the batches",
}


@dataclass(frozen=True)
class Finding:
    """The answer of one check: passed or not, and in words what was found and what to do."""

    check: str
    passed: bool
    detail: str


def audit(ledger: Ledger) -> list[Finding]:
    """Check a ledger that was read whole: both equations, the ranges and the running totals.

    A difference that a person accepted fails no check; the check names it, and the reason that was given.
    """
    told, known = differences(ledger.entries), accepted(ledger.entries)
    findings = []
    for check, fact in _FACTS.items():
        here = [each for each in told if each.check == check]
        wrong = [each for each in here if each.version not in known]
        problems = [*(_untold(ledger) if check == "ranges_contiguous" else ()), *(each.text for each in wrong)]
        but = _but({each.version: known[each.version] for each in here if each.version in known})
        advice = accept_advice(ledger, [each.version for each in wrong])
        findings.append(finding(check, problems, fact + but, advice))
    return findings


def batches_accounted(ledger: Ledger, written: Sequence[Entry] = ()) -> Finding:
    """Check by the arithmetic of ``audit`` every commit since the newest one behind which all adds up.

    ``ledger`` need not be read far: its newest commit carries on which ones before that do not add up. It fails until
    the audit passes: until a person accepts the difference, or a RESTORE undoes the commit. ``written`` are the entries
    of a run, which may be more than are read. A touched key that stands twice breaks the arithmetic: rows meet the
    table before they are counted, so that its record counts twice.
    """
    oldest = min((entry.version for entry in ledger.entries), default=0)
    older = sorted((e for e in written if e.version < oldest), key=lambda entry: entry.version, reverse=True)
    told = replace(ledger, entries=(*ledger.entries, *older))
    known = accepted(told.entries)
    wrong = [each for each in differences(told.entries) if each.version not in known]
    fact = "every commit accounts for its records, follows the last, and touched no key that stands twice"
    nothing = "" if written else " (the run had nothing to commit)"
    advice = accept_advice(ledger, unaccounted(told.entries))
    return finding("batches_accounted", [each.text for each in wrong], fact + nothing, advice)


def accept_advice(ledger: Ledger, versions: Iterable[int]) -> str:
    """How a person accepts what does not add up at these versions; nothing where there are none."""
    options = " ".join(f"--version {version}" for version in sorted(set(versions))[:_SHOWN])
    name = ledger.uri.rstrip("/").rpartition("/")[2]
    command = f"lakehouse accept-difference {name} {options} --reason '...'"
    return f"This check fails until you accept it. Repair it first, then type: {command}" if options else ""


def finding(check: str, problems: Iterable[str], fact: str, advice: str = "") -> Finding:
    """Make a finding of the problems a check saw: none means that the fact holds.

    ``advice`` is what to do about all of them; it is told however many there are.
    """
    found = list(problems)
    if not found:
        return Finding(check, True, f"Holds: {fact}.")
    more = f" And {len(found) - _SHOWN} more." if len(found) > _SHOWN else ""
    return Finding(check, False, f"Does not hold: {fact}. {' '.join(found[:_SHOWN])}{more} {advice}".rstrip())


def every_change_kept(ledger: Ledger) -> Finding:
    """Check the ledger of a change feed: whether any of its commits had to write a net difference."""
    problems = [
        f"Version {entry.version} holds a net difference (reconciled = true in its rows): the single changes were"
        " gone before they were read. Run the job more often than the retention of the table."
        for entry in ledger.entries
        if entry.commit.reconciled
    ]
    return finding("every_change_kept", problems, "every change is one the table recorded")


def changes_kept(*, reconciled: bool) -> Finding:
    """Check one update of a change feed: whether it had to write a net difference."""
    problem = "The run wrote a net difference: the single changes were gone. Run the job more often than the retention."
    return finding("changes_kept", [problem] if reconciled else [], "every change of the run is one the table recorded")


def _untold(ledger: Ledger) -> Iterator[str]:
    if ledger.untold is not None:
        yield f"Version {ledger.untold}: a RESTORE, and nothing tells what it put back; RESTORE again, by a version."


def _but(known: dict[int, Entry]) -> str:
    """The versions of which a person accepted that the fact does not hold."""
    told = [f"version {v} (accepted in version {by.version}: {by.commit.reason})" for v, by in sorted(known.items())]
    return f", but for {', '.join(told)}" if told else ""
