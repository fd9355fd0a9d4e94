"""Other people's suites against a started server; they live in an environment of their own (envs/suites.in)."""
