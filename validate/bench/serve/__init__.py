"""The server under load: what HTTP costs beside the engine alone, and how it refuses what it cannot take."""
