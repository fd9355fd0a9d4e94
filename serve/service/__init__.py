"""The service: one thread owns the engine, the event loop admits requests and receives their tokens."""
