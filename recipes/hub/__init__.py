"""A pinned revision of a Hub repository on this disk: what it must be, how it comes, and why it may not."""
