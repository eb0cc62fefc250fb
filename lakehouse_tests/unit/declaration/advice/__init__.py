"""Every error that a declaration can give: what gives it, what it says, and what is declared by its advice."""
