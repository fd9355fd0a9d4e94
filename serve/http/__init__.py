"""The HTTP side: OpenAI's routes and the probes, over a `Service` and the artifact's `Text`."""
