"""Exports: what is refused, what each version has, what a failure leaves, and what maintenance waits for."""
