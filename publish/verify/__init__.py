"""Whether to trust what was pulled: a folder, a Hub repository or an image, judged by `publish.trust`."""
