"""Serves a GGUF file over HTTP with xllamacpp: ``serve_xllamacpp.py MODEL PORT``."""

from __future__ import annotations

import signal
import sys

import xllamacpp


def main(model: str, port: int) -> None:
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_ctx = 4096
    params.n_parallel = 1
    # two threads beside other busy processes are far slower than one
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)  # noqa: T201
    signal.sigwait({signal.SIGTERM, signal.SIGINT})


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
