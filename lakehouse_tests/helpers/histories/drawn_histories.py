"""Random histories that Hypothesis draws from a state machine."""

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test


def run_histories(
    machine: type[RuleBasedStateMachine], histories: int, steps: int, *, are_always_the_same: bool = False
) -> None:
    """Run some histories of this many steps; the first one that is drawn is the simplest. None is made smaller."""
    hypothesis_settings = settings(
        max_examples=histories,
        stateful_step_count=steps,
        deadline=None,
        derandomize=are_always_the_same,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    # without _min_steps some histories end early
    run_state_machine_as_test(machine, settings=hypothesis_settings, _min_steps=steps)
