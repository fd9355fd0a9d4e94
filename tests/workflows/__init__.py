"""The workflows of .github: what they say, and their steps on this machine."""
