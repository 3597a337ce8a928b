"""Try a run in the browser: scores, [CLS] attention, nearest texts and report.

The page is on this machine's loopback address: no other machine can reach it (docs/serve.md).
"""

import argparse

from multitask.commands import arguments as shared


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_run(parser)
    text = "a search index made with this run: also show its nearest texts"
    shared.add_path(parser, "--index", "DIR", text)
    shared.add_number(parser, "--port", "default 8765; 0: any free one", least=0, default=8765)


def run(arguments: argparse.Namespace) -> None:
    from multitask.inference.serve.server import import_flask, listen, serve
    from multitask.store.run_directory import load_run_config

    import_flask()
    load_run_config(arguments.run)  # report a missing run before torch is loaded
    with listen(arguments.port) as listening:
        from multitask.inference.serve.app import make_app
        from multitask.inference.serve.responses import open_run

        served = open_run(arguments.run, arguments.index)
        address, port = listening.getsockname()
        print(f"http://{address}:{port}/ shows {arguments.run}; Ctrl-C ends it", flush=True)
        serve(make_app(served), listening, served.busy)
