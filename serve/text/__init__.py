"""Everything between text and token ids: no HTTP, no engine.

`Text` is made once per artifact: encode, render, and a `Reader` per answer. A reader is the chain of a Decoder (ids to
text), Channels (text and markers to events) and Stops (what may go out).
"""
