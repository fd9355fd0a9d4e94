"""torch_neuronx.contexts (section 2.4 step 1, section 3.1)."""

from __future__ import annotations

from neuron_standin.runtime import disable_nrt_load

__all__ = ["disable_nrt_load"]
