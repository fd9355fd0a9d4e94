"""The demo checkpoint `tiny`: a small Gemma 4 trained here, in the official layout, from text that every Python
ships.

It differs from a downloaded checkpoint in size only: the same classes, key names, decoy tensors, special
tokens, chat turns and generation settings, so a stage that passes on it has met every trap of the real files.
The public face is `recipes.tiny.build.build_tiny`.
"""

import os

# Read once, when torch loads its OpenMP runtime: on a busy machine the default, spinning at every barrier, makes two
# threads up to seven times slower than one. It changes no result.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# transformers imports torch_xla where it is installed, which warns unless told which device to use.
os.environ.setdefault("PJRT_DEVICE", "CPU")
# Importing an optimizer brings in torch's compiler, which starts a pool of worker processes that nobody here needs.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
