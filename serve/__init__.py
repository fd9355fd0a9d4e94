"""What ships: the engine, its runtimes and the server; imports nothing of the factory that built the artifact."""
