"""Doctor: what this machine has and lacks for a role, before an hour of work finds out.

Departs from a requirements check in three ways. It runs where nothing is installed (the standard library alone; what
needs more says so). What cannot be found out is `unknown`, never an error, as a container may hide it. And every thing
that is missing comes with one sentence that says how to get it.
"""

from typing import Literal, get_args

Role = Literal["cpu", "inf2-build", "inf2-serve"]
ROLES: tuple[Role, ...] = get_args(Role)
