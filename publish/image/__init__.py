"""One OCI image per variant, built without a Docker engine, and its way to a registry and back.

    base, dependencies   runtime.py   once a machine: mmdebstrap and pip for target cpu, a reference for inf2
    tables, weights, graphs, server   build.py   from a release folder, at the paths that it has there
    registry.py, attest.py            through skopeo
    run.py, bench.py                  an image started with buildah, as its own configuration says

Departs from a Dockerfile with one COPY a layer: the layers are written here (layer.py). buildah keeps the owner, mode
and time that a build folder happens to have, and packs and compresses a layer of weights anew for every variant; a
layer written here is a function of paths and digests, and is made once. What has to be executed to come into being
(Debian packages, wheels, the Neuron runtime) is made by the tools for it.
"""
