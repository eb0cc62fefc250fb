"""The audit proves that a ledger accounts for every record: arithmetic on the history, whose entries must be whole."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from lakehouse.errors import restore_advice
from lakehouse.ledger.accounting import differences, find_acceptances, unaccounted_versions
from lakehouse.ledger.commits import Entry
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.log_copies import compare_copy
from lakehouse.ledger.log_digests import known_replaced

_MAX_SHOWN = 5  # problems described in full; the rest are counted
_FACTS = {
    "records_accounted": "read = filtered + rejected + superseded + rows merged in every commit",
    "rows_accounted": "every commit wrote at most the rows that it merged",
    "ranges_contiguous": "every batch begins where the one before it ended",
    "totals_match": "the running totals equal the sums of the batches",
}
_UNKNOWN_RESTORE = (
    "Version {} is a RESTORE, and the log does not show which version it restored. Restore the intended version again,"
    " by its number."
)


@dataclass(frozen=True)
class Finding:
    """The result of one check: whether it passed, and a description with the problems and the remedy."""

    check: str
    passed: bool
    detail: str


def audit(ledger: Ledger) -> list[Finding]:
    """Check the whole history of a ledger: both equations, the ranges, the running totals, and the entries of the log.

    A difference that a person accepted fails no check; the check names it and the reason for accepting it.
    """
    all_differences, accepting_entries = differences(ledger.entries), find_acceptances(ledger.entries)
    findings = []
    for check, fact in _FACTS.items():
        of_check = [difference for difference in all_differences if difference.check == check]
        open_differences = [d for d in of_check if d.version not in accepting_entries]
        problems = [d.text for d in open_differences]
        exceptions = {d.version: accepting_entries[d.version] for d in of_check if d.version in accepting_entries}
        advice = accept_advice(ledger, [d.version for d in open_differences])
        if check == "ranges_contiguous" and ledger.unknown_restore is not None:
            problems = [_UNKNOWN_RESTORE.format(ledger.unknown_restore), *problems]
            advice = advice or restore_advice(ledger.uri)
        findings.append(finding(check, problems, fact + _describe_exceptions(exceptions), advice))
    return [*findings, _log_unchanged(ledger)]


def _log_unchanged(ledger: Ledger) -> Finding:
    """Check that no entry of the log was replaced after a commit was planned on it."""
    compare_copy(ledger.uri)
    versions = sorted(known_replaced(ledger.uri, ledger.version, ledger.entries))
    cause = "is another commit now: a writer without conditional commits replaced it."
    problems = [f"Version {version} {cause}" for version in versions]
    advice = restore_advice(ledger.uri, versions[0] - 1) if versions else ""
    return finding("log_unchanged", problems, "no commit was replaced by another one", advice)


def batches_accounted(ledger: Ledger, run_entries: Sequence[Entry] = ()) -> Finding:
    """Check by the arithmetic of ``audit`` every commit since the newest one up to which everything adds up.

    ``ledger`` may be a short part of the history: its newest commit lists the older versions that do not add up. The
    check fails until the audit passes: until a person accepts the difference, or restores a version before it.
    ``run_entries`` are the entries of a run, which may reach further back than ``ledger``. A touched key that has two
    rows breaks the arithmetic: one record matches both rows and is counted twice.
    """
    oldest = min((entry.version for entry in ledger.entries), default=0)
    older = sorted((e for e in run_entries if e.version < oldest), key=lambda entry: entry.version, reverse=True)
    extended = replace(ledger, entries=(*ledger.entries, *older))
    accepted_versions = find_acceptances(extended.entries).keys()
    open_differences = [d for d in differences(extended.entries) if d.version not in accepted_versions]
    fact = "every commit accounts for its records, follows the one before it, and touched no duplicate key"
    note = "" if run_entries else " (the run had nothing to commit)"
    advice = accept_advice(ledger, unaccounted_versions(extended.entries))
    return finding("batches_accounted", [d.text for d in open_differences], fact + note, advice)


def accept_advice(ledger: Ledger, versions: Iterable[int]) -> str:
    """Return how a person accepts the differences at these versions, or undoes them; empty if there are none."""
    sorted_versions = sorted(set(versions))
    if not sorted_versions:
        return ""
    options = " ".join(f"--version {version}" for version in sorted_versions[:_MAX_SHOWN])
    name = ledger.uri.rstrip("/").rpartition("/")[2]
    version_before = sorted_versions[0] - 1
    return (
        f"This check fails until you accept the difference. Merge missing records first: lakehouse replay {name}"
        f" - then accept it: lakehouse repair difference {name} {options} --reason '...'"
        + (f" - or undo it. {restore_advice(ledger.uri, version_before)}" if version_before >= 0 else "")
    )


def finding(check: str, problems: Iterable[str], fact: str, advice: str = "") -> Finding:
    """Return the result of a check from the problems that it found; without problems the fact holds.

    ``advice`` is the remedy for all problems together; it is shown no matter how many there are.
    """
    texts = list(problems)
    if not texts:
        return Finding(check, True, f"Holds: {fact}.")
    omitted_text = f" And {len(texts) - _MAX_SHOWN} more." if len(texts) > _MAX_SHOWN else ""
    return Finding(
        check, False, f"Does not hold: {fact}. {' '.join(texts[:_MAX_SHOWN])}{omitted_text} {advice}".rstrip()
    )


def every_change_kept(ledger: Ledger) -> Finding:
    """Check the ledger of a change feed: whether any of its commits had to write a net difference."""
    problems = [
        f"Version {entry.version} holds a net difference (reconciled = true in its rows): the single changes expired"
        " before they were read. Run the job more often than the retention of the table."
        for entry in ledger.entries
        if entry.commit.reconciled
    ]
    return finding("every_change_kept", problems, "the table recorded every change")


def changes_kept(*, reconciled: bool) -> Finding:
    """Check one update of a change feed: whether it had to write a net difference."""
    problem = (
        "The run wrote a net difference: the single changes had expired. Run the job more often than the retention."
    )
    return finding("changes_kept", [problem] if reconciled else [], "the table recorded every change of the run")


def rows_unchanged(run_entries: Sequence[Entry], advice: str, *, may_correct: bool = False) -> Finding:
    """Check the commits of a replay, whose records were merged before: none of them changed a row.

    Some do if rows are corrected (``may_correct``).
    """
    counts = [(e.version, e.metrics.inserted, e.metrics.updated, e.metrics.deleted) for e in run_entries]
    if may_correct:
        changed = sum(sum(count[1:]) for count in counts)
        return finding("rows_unchanged", (), f"the run corrected rows on purpose; {changed:,} rows changed", advice)
    problems = [
        f"Version {version} inserted {inserted:,}, updated {updated:,} and deleted {deleted:,} rows."
        for version, inserted, updated, deleted in counts
        if inserted or updated or deleted
    ]
    return finding("rows_unchanged", problems, "the replay changed no row", advice)


def _describe_exceptions(accepting_entries: dict[int, Entry]) -> str:
    """Name the versions at which a person accepted that the fact does not hold."""
    texts = [
        f"version {version} (accepted in version {entry.version}: {entry.commit.reason})"
        for version, entry in sorted(accepting_entries.items())
    ]
    return f", except {', '.join(texts)}" if texts else ""
