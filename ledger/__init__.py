"""What every stage shares: the content-addressed store, receipts, digests, atomic writes, the error type.

Imports the standard library and pydantic only, so that a stage that only moves files starts at once.
"""
