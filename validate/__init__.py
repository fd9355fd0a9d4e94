"""Proof that a build computes what its checkpoint computes, and the measurement of what it costs."""
