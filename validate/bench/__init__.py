"""How fast, beside transformers in the same minutes."""
