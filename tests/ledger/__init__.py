"""Tests of the ledger: every proof of crash safety here kills a real process."""
